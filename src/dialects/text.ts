/** Text that every upstream takes: no lone surrogates, no null characters (dialects.md 4.8 #44 and #45). Sound text comes back as it is. */
export function cleanText(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed();
  return whole.includes("\0") ? whole.replaceAll("\0", "") : whole;
}

/** Text as a model can see it: not empty and not only white space. */
export function isVisible(text: string): boolean {
  const first = text.charCodeAt(0);
  // Nearly every text begins with a character of ASCII that can be seen.
  return (first > 32 && first < 127) || text.trim() !== "";
}
