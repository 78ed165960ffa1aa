/** The first `most` UTF-16 units of a text; one less where they would end with the first half of a surrogate pair. */
export const cutText = (text: string, most: number): string => text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
