/** The first `most` UTF-16 units of a text, one less where they would end in half a character. */
export const cutText = (text: string, most: number): string => text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
