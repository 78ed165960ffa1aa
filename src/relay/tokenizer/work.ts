/** What the tokenizer's worker is given: texts in groups that are weighed apart, and PDF files as base64. */
export type Work = { groups: readonly (readonly string[])[]; pdfs: readonly string[] };

/** Tokens of a group in the o200k vocabulary, and how many of its characters lie outside ASCII. */
export type GroupCount = { tokens: number; characters: number; wide: number };

/** What comes back: one count a group, in order, and the pages of all files together. */
export type Counts = { groups: GroupCount[]; pages: number };

/** Characters of a piece of work: what it weighs in memory. */
export function sizeOf({ groups, pdfs }: Work): number {
  let size = 0;
  for (const text of pdfs) size += text.length;
  for (const group of groups) for (const text of group) size += text.length;
  return size;
}
