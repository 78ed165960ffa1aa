import type { Caller } from "../accounts/caller.ts";
import type { WebToolAnswer, WebToolOrder } from "../canon/web-tools.ts";

/** It runs with the engine, the allowance and the meter of the MCP server and the standalone endpoints, and is one more call of its caller. */
export type WebToolCall = WebToolOrder & { caller: Caller };

/** Runs a web tool: claims, runs, settles. Rejects only when `signal` is aborted; whatever else goes wrong is a fault. */
export type RunWebTool = (call: WebToolCall) => Promise<WebToolAnswer>;
