/** A page takes at least so many bytes in a file, whatever the file says of itself. */
const LEAST_BYTES_PER_PAGE = 100;
/** Bytes of a usual page, for files that hide their structure inside compressed streams. */
const USUAL_BYTES_PER_PAGE = 16_384;

function largest(text: string, pattern: RegExp): number {
  let found = 0;
  for (const match of text.matchAll(pattern)) found = Math.max(found, Number(match[1]));
  return found;
}

/** What the head of a file says that was made to be shown while it comes; 0 for any other. */
function pagesInHead(text: string): number {
  const head = text.slice(0, 1024);
  return head.includes("/Linearized") ? largest(head, /\/N\s{1,8}(\d{1,6})(?!\d)/g) : 0;
}

/** Base64 characters of the beginning and of the end of a file: one of them holds its page tree in most, and they are read in no time. */
const ENDS = 64 * 1024;
const TREE = /\/Type\s{0,8}\/Pages(?![A-Za-z])/;

/** What the root of a page tree says in this part of a file; 0 where it does not stand there, or holds other dictionaries. */
function pagesInTree(text: string): number {
  let pages = 0;
  for (const part of text.split("<<")) {
    const dictionary = part.slice(0, Math.max(0, part.indexOf(">>")));
    // What has a parent is a part of the tree.
    if (!TREE.test(dictionary) || dictionary.includes("/Parent")) continue;
    pages = Math.max(pages, largest(dictionary, /\/Count\s{1,8}(\d{1,6})(?!\d)/g));
  }
  return pages;
}

/**
 * Pages of a PDF file given as base64, where its beginning or its end says how many it has: the root of its page tree, or its head. Undefined where neither
 * does.
 */
export function glancePdfPages(base64: string): number | undefined {
  const at = Math.max(0, base64.length - ENDS);
  const [head, tail] = [base64.slice(0, ENDS), base64.slice(at - (at % 4))].map((end) =>
    Buffer.from(end, "base64").toString("latin1"),
  ) as [string, string];
  return Math.max(pagesInHead(head), pagesInTree(head), pagesInTree(tail)) || undefined;
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
  pages = Math.max(pages, pagesInHead(text));
  if (pages === 0) pages = Math.ceil(bytes.length / USUAL_BYTES_PER_PAGE);
  return Math.max(1, Math.min(pages, Math.ceil(bytes.length / LEAST_BYTES_PER_PAGE)));
}
