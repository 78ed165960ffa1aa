/** Rows that are read and written in one go while an export streams. */
export const EXPORT_PAGE = 1_000;

/** A record of an export: named, flat values. */
export type ExportRecord = Readonly<Record<string, string | number | boolean | null>>;

/** Pages of records, read one by one as the client takes them. */
export type ExportPages = Iterable<readonly ExportRecord[]>;

/** A spreadsheet would take what begins like this for a formula. */
const FORMULA = /^[=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** A value as a cell (RFC 4180). Text that a spreadsheet would run is kept from it by an apostrophe. */
export function toCell(value: ExportRecord[string] | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) && !/^-?\d+(?:\.\d+)?$/.test(value) ? `'${value}` : value;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Records as CSV (RFC 4180), in pieces: a line of titles, then a page each. */
export function* writeCsv(columns: readonly string[], pages: ExportPages): Generator<string> {
  yield `${columns.join(",")}\r\n`;
  for (const records of pages) {
    if (records.length === 0) continue;
    yield records.map((record) => `${columns.map((column) => toCell(record[column])).join(",")}\r\n`).join("");
  }
}

/** Records as one JSON array, in pieces of a page each. */
export function* writeJson(pages: ExportPages): Generator<string> {
  let separator = "[\n";
  for (const records of pages) {
    if (records.length === 0) continue;
    yield separator + records.map((record) => JSON.stringify(record)).join(",\n");
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]\n" : "\n]\n";
}

const TYPES = { csv: "text/csv; charset=utf-8", json: "application/json" } as const;

/** An export as an answer that is written while it is read: a page at a time, as fast as the client takes it. */
export function exportResponse(
  format: "csv" | "json",
  name: string,
  columns: readonly string[],
  pages: ExportPages,
  headers: Record<string, string>,
): Response {
  const encoder = new TextEncoder();
  const texts = format === "csv" ? writeCsv(columns, pages) : writeJson(pages);
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const { done, value } = texts.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      cancel() {
        texts.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      ...headers,
      "content-type": TYPES[format],
      "content-disposition": `attachment; filename="${name}.${format}"`,
    },
  });
}
