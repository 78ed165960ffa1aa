/**
 * The same text in memory of its own. A slice of a text keeps the whole text in memory: a few words of a vendor's answer would keep the 64 KB that they
 * came in.
 */
export const ownText = (part: string): string => [part, ""].join("");
