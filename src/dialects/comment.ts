import type { Fields } from "../lib/http1/fields.ts";

/**
 * What ends a comment in a stream for this client. SDKs that say `x-stainless-lang` (OpenAI's, Anthropic's) read line by line, and some take the blank
 * line behind a comment for a record without data, on which they end the stream: Go's before 3.43 (openai/openai-go #621), Python's where a vendor's
 * records have ids (openai/openai-python #2722). They get the comment's line alone. Others read up to blank lines (Dify) and would take what follows a
 * comment without one for a part of it.
 */
export const commentEnd = (headers: Pick<Fields, "has">): string => (headers.has("x-stainless-lang") ? "\n" : "\n\n");
