/** Countries that Tavily knows, by ISO 3166 (web-and-mcp.md B1). */
const KNOWN = new Set(
  (
    "AF AL DZ AD AO AR AM AU AT AZ BS BH BD BB BY BE BZ BJ BT BO BA BW BR BN BG BF BI KH CM CA CV CF TD CL CN CO KM CG CR HR CU CY CZ DK DJ DO EC EG " +
    "SV GQ ER EE ET FJ FI FR GA GM GE DE GH GR GT GN HT HN HU IS IN ID IR IQ IE IL IT JM JP JO KZ KE KW KG LV LB LS LR LY LI LT LU MG MW MY MV ML MT " +
    "MR MU MX MD MC MN ME MA MZ MM NA NP NL NZ NI NE NG KP MK NO OM PK PA PG PY PE PH PL PT QA RO RU RW SA SN RS SG SK SI SO ZA KR SS ES LK SD SE CH " +
    "SY TW TJ TZ TH TG TT TN TR TM UG UA AE GB US UY UZ VE VN YE ZM ZW"
  ).split(" "),
);

/** Countries whose names at Tavily are other than the runtime's English ones. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ...{ CZ: "czech republic", TR: "turkey", MM: "myanmar", BA: "bosnia and herzegovina", TT: "trinidad and tobago" },
  ...{ CG: "congo", MK: "north macedonia", KP: "north korea", KR: "south korea" },
};

let names: Intl.DisplayNames | undefined;

/** A country's English name in small letters, for engines that take names; undefined for one they do not know. */
export function countryName(code: string): string | undefined {
  if (!KNOWN.has(code)) return undefined;
  names ??= new Intl.DisplayNames("en", { type: "region" });
  return OTHER_NAMES[code] ?? names.of(code)?.toLowerCase();
}
