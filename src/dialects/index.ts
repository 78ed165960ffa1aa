import { chat } from "./chat/index.ts";
import type { Dialect, DialectName, UpstreamDialect, UpstreamDialectName } from "./dialect.ts";
import { gemini } from "./gemini/index.ts";
import { messages } from "./messages/index.ts";
import { responses } from "./responses/index.ts";

/** Every dialect that clients speak, by name: the one place, beside `DIALECTS`, that a new one is entered. */
export const dialects: Readonly<Record<DialectName, Dialect>> = { chat, messages, responses };

/** Every dialect that vendors speak, by name. */
export const upstreamDialects: Readonly<Record<UpstreamDialectName, UpstreamDialect>> = { ...dialects, gemini };
