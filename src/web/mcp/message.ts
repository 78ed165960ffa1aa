import { isObject } from "../../lib/json.ts";

/** Versions of the protocol that are spoken; the first is the service's own (interface 9.3). */
export const VERSIONS = ["2025-06-18", "2025-03-26", "2024-11-05"] as const;

/** JSON-RPC's own codes. */
export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const UNKNOWN_METHOD = -32601;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;
/** For refusals before a message is read; clients do not interpret it (web-and-mcp.md A2). */
export const REFUSED = -32000;
export const UNAUTHORIZED = -32001;

export type RpcId = string | number | null;

/** One message of a client: a request to be answered, or one that needs no answer (a notification, a response). `cancels`: the id of the request it cancels. */
export type RpcMessage =
  | { kind: "request"; id: string | number; method: string; params: unknown }
  | { kind: "note"; cancels?: string | number }
  | { kind: "fault"; code: number; message: string; id: RpcId };

/** A client's request, which is to be answered. */
export type RpcRequest = Extract<RpcMessage, { kind: "request" }>;

/** What is wrong with a request's `params`: told as {@link INVALID_PARAMS}, inside HTTP 200. */
export class InvalidParams extends Error {
  override readonly name = "InvalidParams";
}

const fault = (message: string, id: RpcId = null): RpcMessage => ({
  kind: "fault",
  code: INVALID_REQUEST,
  message,
  id,
});

const isId = (id: unknown): id is string | number => typeof id === "string" || Number.isSafeInteger(id);

/** What a notification means here: only cancellation has an effect (specification 2025-06-18, "Cancellation"). */
function readNote(method: string, params: unknown): RpcMessage {
  const named = method === "notifications/cancelled" && isObject(params) ? params["requestId"] : undefined;
  return { kind: "note", ...(isId(named) && { cancels: named }) };
}

/** Tells by its form what a message is (web-and-mcp.md A2 #6, #8). `value` is parsed JSON. */
export function readMessage(value: unknown): RpcMessage {
  if (Array.isArray(value)) return fault("Batches are not taken: send one message with each POST.");
  if (!isObject(value)) return fault("A JSON-RPC message is an object.");
  const { jsonrpc, method, id, params } = value;
  const known = isId(id) ? id : null;
  if (jsonrpc !== "2.0") return fault('jsonrpc must be "2.0".', known);
  if (method === undefined && ("result" in value || "error" in value)) return { kind: "note" };
  if (typeof method !== "string") return fault("method must be a string.", known);
  if (!Object.hasOwn(value, "id")) return readNote(method, params);
  if (!isId(id)) return fault("id must be a string or an integer.");
  return { kind: "request", id, method, params };
}

/** The answer to a request. `result` is JSON already. */
export function writeResult(id: RpcId, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}

/** An error as an answer, as JSON text; `id` is null where the request's could not be read. */
export function writeFault(code: number, message: string, id: RpcId = null): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}
