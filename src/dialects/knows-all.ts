import type { Quirks } from "./dialect.ts";

/*
 * How much of OpenAI's dialects a server speaks, by what its row says of custom tools: only OpenAI's own servers and Azure's know them, and these know all the rest
 * of the dialect too. Of a server whose row says nothing of custom tools neither is true: nobody knows what it knows.
 */

/** The server knows all of its dialect: it is OpenAI's own, or leads there. */
export const knowsAll = ({ customTools }: Quirks): boolean => customTools === true;

/** The server is known to know less of its dialect than OpenAI's own. */
export const knowsLess = ({ customTools }: Quirks): boolean => customTools === false;
