/**
 * Text that every upstream takes: lone surrogates replaced and null bytes removed (dialects.md 4.8 #44, #45).
 * Well-formed text comes back as it is.
 */
export function cleanText(text: string): string {
  const formed = text.isWellFormed() ? text : text.toWellFormed();
  return formed.includes("\0") ? formed.replaceAll("\0", "") : formed;
}

/** Text as a model can see it: not empty and not only white space. */
export const isVisible = (text: string): boolean => text.trim() !== "";
