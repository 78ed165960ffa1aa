/** A form's field in one of its places, as the library tells it: `page` counts from 0. */
type Field = { type?: unknown; value?: unknown; page?: unknown; hidden?: unknown; password?: unknown };

/** What is asked for of a file. */
export type FormFile = { getFieldObjects(): Promise<Record<string, object[]> | null> };

/** A field's own name without those of the groups around it: `name` of `form[0].page1[0].name[0]`. */
const ownName = (name: string): string => /([^.[\]]+)(?:\[\d+\])?$/.exec(name)?.[1] ?? name;

/** What is filled in, in one line; "" for what is left empty, for a box without its mark, and for what is not to be shown. */
function filledIn({ type, value, hidden, password }: Field): string {
  if (hidden === true || password === true || type === "button") return "";
  const written = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "string").join(", ");
  const isMark = type === "checkbox" || type === "radiobutton";
  return isMark && written === "Off" ? "" : written.replace(/\s+/g, " ").trim();
}

/**
 * What somebody has filled into a file's form, as lines of names and values for each page (from 1): a page's text holds none of it (ISO 32000-1, 12.7).
 * Empty for a file without a form, and for one whose form cannot be read.
 */
export async function readForm(file: FormFile): Promise<Map<number, string[]>> {
  const lines = new Map<number, string[]>();
  // A form that cannot be read must not keep readers from the text.
  const fields = (await file.getFieldObjects().catch(() => null)) ?? {};
  for (const [name, places] of Object.entries(fields)) {
    const filled = (places as Field[]).find((place) => typeof place.page === "number" && filledIn(place) !== "");
    if (!filled) continue;
    const page = Number(filled.page) + 1;
    const line = `${ownName(name)}: ${filledIn(filled)}`;
    const own = lines.get(page);
    if (own) own.push(line);
    else lines.set(page, [line]);
  }
  return lines;
}
