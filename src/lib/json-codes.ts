// The characters that JSON is built of, by their codes, which are also their bytes in UTF-8.

export const QUOTE = 34;
export const COMMA = 44;
export const COLON = 58;
export const OPEN_LIST = 91;
export const BACKSLASH = 92;
export const CLOSE_LIST = 93;
export const OPEN_OBJECT = 123;
export const CLOSE_OBJECT = 125;

/** What JSON takes as white space. */
export const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9;
