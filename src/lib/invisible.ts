/** Signs that end a line, do something to a terminal, or turn the text behind them: in none of what is shown as one line in its order. */
export const INVISIBLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu;
