/** Characters that end a line, control a terminal, or turn the direction of text: none of them may stand in what is shown as one line. */
export const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu;
