import type { Part, TextPart } from "../canon/prompt.ts";

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

/** The texts of parts as one, in order, cleaned (interface 4.5); undefined where none says anything. */
export function joinTexts(parts: readonly TextPart[]): string | undefined {
  let joined: string | undefined;
  for (const { text } of parts) {
    if (text === "") continue;
    const clean = cleanText(text);
    joined = joined === undefined ? clean : `${joined}\n${clean}`;
  }
  return joined;
}

/** What a client says of a document, where its bytes go out in a part that has a place for its title alone (dialects.md 4.2). */
export const contextOf = (part: Part): string | undefined =>
  part.type === "document" && part.context ? cleanText(part.context) : undefined;

/** A part of a tool's result as every model can see it, which must see all that it asked for: what nobody else knows is shown as its JSON. */
export const textOfUnknown = (part: Part): Part =>
  part.type === "opaque" ? { type: "text", text: cleanText(JSON.stringify(part.value)) } : part;
