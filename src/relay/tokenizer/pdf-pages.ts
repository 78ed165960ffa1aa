/** A page takes at least so many bytes in a file, whatever the file says of itself. */
const LEAST_BYTES_PER_PAGE = 100;
/** Bytes of a usual page, for files that hide their structure inside compressed streams. */
const USUAL_BYTES_PER_PAGE = 16_384;

function largest(text: string, pattern: RegExp): number {
  let found = 0;
  for (const match of text.matchAll(pattern)) found = Math.max(found, Number(match[1]));
  return found;
}

/**
 * Pages of a PDF file given as base64: its page objects, or what its page tree or its linearised head says, whichever is more; by its
 * size where none can be seen. At least 1, and never more than its bytes can hold (dialects.md 6.3).
 */
export function countPdfPages(base64: string): number {
  const bytes = Buffer.from(base64, "base64");
  const text = bytes.toString("latin1");
  let pages = 0;
  for (const _match of text.matchAll(/\/Type\s{0,8}\/Page(?![A-Za-z])/g)) pages++;
  pages = Math.max(pages, largest(text, /\/Count\s{1,8}(\d{1,6})(?!\d)/g));
  const head = text.slice(0, 1024);
  if (head.includes("/Linearized")) pages = Math.max(pages, largest(head, /\/N\s{1,8}(\d{1,6})(?!\d)/g));
  if (pages === 0) pages = Math.ceil(bytes.length / USUAL_BYTES_PER_PAGE);
  return Math.max(1, Math.min(pages, Math.ceil(bytes.length / LEAST_BYTES_PER_PAGE)));
}
