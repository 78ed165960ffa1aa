/** Text that every upstream takes: no lone surrogates, no null characters (dialects.md 4.8 #44 and #45). Sound text comes back as it is. */
export function cleanText(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed();
  return whole.includes("\0") ? whole.replaceAll("\0", "") : whole;
}
