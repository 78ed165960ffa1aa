/**
 * The same text in memory of its own. A part of a text holds the whole of it for as long as it is there itself: a few words that are kept of a vendor's
 * answer hold the 64 KB that they came in.
 */
export const ownText = (part: string): string => [part, ""].join("");
