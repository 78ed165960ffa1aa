import { chat } from "./chat/index.ts";
import type { Dialect, DialectName } from "./dialect.ts";
import { messages } from "./messages/index.ts";

/** Every dialect by name: the one place, beside `DIALECTS`, that a new one is entered. */
export const dialects: Readonly<Record<DialectName, Dialect>> = { chat, messages };
