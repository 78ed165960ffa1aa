import { expect } from "bun:test";
import type { DialectName, UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { type Answer, json, sse } from "../support/upstream.ts";
import { expectFinished, readError } from "./lab.ts";
import {
  HIDDEN_MODEL,
  type Mode,
  PIECES,
  type RawUsage,
  SAID,
  SOUND,
  type SseRecord,
  saidIn,
  WIRES,
  type Wire,
} from "./wires.ts";

/**
 * What a vendor of any dialect puts on the wire, piece by piece. As {@link Wire}, but that some dialects say usage and terminator in one
 * record, or have no terminator: `end` is all that follows the finish reason.
 */
export type FaultWire = Pick<Wire, "reply" | "head" | "text" | "finish" | "error" | "errorRecord"> & {
  end(usage?: RawUsage): string;
  /** A record in the midst that tells counts; "" where none can. */
  counts(usage: RawUsage): string;
  /** A terminator alone, as some servers send it twice; "" where the dialect has none. */
  terminator: string;
};

const fromWire = (wire: Wire): FaultWire => ({
  ...wire,
  end: (usage = SOUND) => wire.usage(usage) + wire.terminator,
  counts: wire.usage,
});

const record = (type: string, fields: Record<string, unknown>) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

const RESPONSE = { id: "resp_v1", object: "response", created_at: 1_700_000_000, model: HIDDEN_MODEL };
const textPart = (text: string) => ({ type: "output_text", text, annotations: [] });
const item = (text: string) => ({
  ...{ id: "msg_v1", type: "message", role: "assistant", status: "completed" },
  content: [textPart(text)],
});
const responseUsage = (usage: RawUsage) =>
  usage && { usage: { input_tokens: usage.input, output_tokens: usage.output, total_tokens: 0 } };
const wholeResponse = (usage: RawUsage) => ({
  ...{ ...RESPONSE, status: "completed", error: null, incomplete_details: null },
  output: [item(SAID)],
  ...responseUsage(usage),
});
const place = { item_id: "msg_v1", output_index: 0, content_index: 0 };

const responses: FaultWire = {
  reply: (usage = SOUND) => wholeResponse(usage),
  head: () =>
    record("response.created", { response: { ...RESPONSE, status: "in_progress", output: [] } }) +
    record("response.output_item.added", { output_index: 0, item: { ...item(""), content: [] } }) +
    record("response.content_part.added", { ...place, part: textPart("") }),
  text: (delta) => record("response.output_text.delta", { ...place, delta }),
  finish: () =>
    record("response.output_text.done", { ...place, text: SAID }) +
    record("response.output_item.done", { output_index: 0, item: item(SAID) }),
  end: (usage = SOUND) => record("response.completed", { response: wholeResponse(usage) }),
  counts: () => "",
  terminator: record("response.completed", { response: wholeResponse(SOUND) }),
  error: (type, message, code) => ({ error: { message, type, param: null, code: code ?? null } }),
  errorRecord: (type, message) => record("error", { code: type, message, param: null }),
};

/** Google's own words for what other vendors call so. */
const GOOGLE_WORDS: Readonly<Record<string, readonly [number, string]>> = {
  overloaded_error: [503, "UNAVAILABLE"],
  rate_limit_error: [429, "RESOURCE_EXHAUSTED"],
  authentication_error: [401, "UNAUTHENTICATED"],
  permission_error: [403, "PERMISSION_DENIED"],
  not_found_error: [404, "NOT_FOUND"],
  invalid_request_error: [400, "INVALID_ARGUMENT"],
};
const geminiError = (type: string, message: string) => {
  const [code, status] = GOOGLE_WORDS[type] ?? [500, "INTERNAL"];
  return { error: { code, message, status } };
};
const geminiRecord = (text: string, more: Record<string, unknown> = {}, usage?: RawUsage) => ({
  candidates: [{ content: { parts: [{ text }], role: "model" }, index: 0, ...more }],
  ...(usage && { usageMetadata: { promptTokenCount: usage.input, candidatesTokenCount: usage.output } }),
  ...{ modelVersion: HIDDEN_MODEL, responseId: "resp-v1" },
});
const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

const gemini: FaultWire = {
  reply: (usage = SOUND) => geminiRecord(SAID, { finishReason: "STOP" }, usage),
  head: () => data(geminiRecord("")),
  text: (text) => data(geminiRecord(text)),
  finish: (usage = SOUND) => data(geminiRecord("", { finishReason: "STOP" }, usage)),
  end: () => "",
  counts: (usage) => data(geminiRecord("", {}, usage)),
  terminator: "",
  error: geminiError,
  errorRecord: (type, message) => data(geminiError(type, message)),
};

/** Vendors by the dialect they speak. */
export const FAULT_WIRES: Record<UpstreamDialectName, FaultWire> = {
  chat: fromWire(WIRES.chat),
  messages: fromWire(WIRES.messages),
  responses,
  gemini,
};

/** A whole sound stream. */
export function soundStreamOf(wire: FaultWire, usage: RawUsage = SOUND): string {
  return wire.head(usage) + PIECES.map(wire.text).join("") + wire.finish(usage) + wire.end(usage);
}

/** A sound answer, whichever way it was asked for. */
export function soundAnswerOf(wire: FaultWire, mode: Mode): Answer {
  return mode === "stream" ? sse(soundStreamOf(wire)) : json(wire.reply());
}

/** Where each client asks. */
export const CLIENT_PATH: Record<DialectName, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
};

/** Ceiling of every request of these tables, tokens. */
export const CEILING = 64;

/** The smallest request of a client's dialect, with a ceiling. */
export function askAs(client: DialectName, model: string, mode: Mode): { model: string } & Record<string, unknown> {
  const stream = mode === "stream" && { stream: true };
  if (client === "responses") return { model, input: "Hi", max_output_tokens: CEILING, ...stream };
  return { model, messages: [{ role: "user", content: "Hi" }], max_tokens: CEILING, ...stream };
}

/** The side that shares its errors' shape (contract 6). */
const shapeOf = (client: DialectName) => (client === "messages" ? "messages" : "chat");

/** Checks that a value is an error of the client's dialect, exactly, and gives what it tells. */
export const readErrorOf = (client: DialectName, value: unknown) => readError(shapeOf(client), value);

/** Records that say: the reply is whole. */
const isTerminator = ({ data: text, value }: SseRecord) =>
  text === "[DONE]" || ["message_stop", "response.completed", "response.incomplete"].includes(String(value?.["type"]));

/** Checks a client's finished stream against contract 7: one terminator, it is last, and nothing tells of an error. */
export function expectFinishedAs(client: DialectName, records: readonly SseRecord[]): void {
  expect(records.filter(isTerminator)).toHaveLength(1);
  if (client !== "responses") {
    expectFinished(client, records);
    return;
  }
  expect(records.at(-1)?.value?.["type"]).toBe("response.completed");
  expect(records.map(({ value }) => value?.["type"])).not.toContain("error");
  for (const { event, value } of records) expect(event).toBe(value?.["type"] as string);
}

/** Checks that a client's stream ended in an error of its dialect and nothing behind it, no terminator above all; gives what it tells. */
export function expectBrokenAs(client: DialectName, records: readonly SseRecord[]) {
  expect(records.filter(isTerminator)).toEqual([]);
  const isError = ({ value }: SseRecord) => value !== undefined && ("error" in value || value["type"] === "error");
  if (client !== "responses") {
    expect(records.findIndex(isError)).toBe(records.length - 1);
    const last = records.at(-1);
    expect(last?.event).toBe(client === "messages" ? "error" : undefined);
    return readErrorOf(client, last?.value);
  }
  // The record itself, and the failed response that its own vendor sends behind it.
  const [error, failed] = records.slice(-2);
  expect(records.findIndex(isError)).toBe(records.length - 2);
  expect([error?.event, failed?.event]).toEqual(["error", "response.failed"]);
  const told = readErrorOf(client, { error: error?.value?.["error"] });
  const response = failed?.value?.["response"] as Record<string, unknown>;
  expect(response).toMatchObject({ status: "failed", error: { code: told.code, message: told.message } });
  return told;
}

/** The whole text that a client's records carry. */
export function saidTo(client: DialectName, records: readonly SseRecord[]): string {
  if (client !== "responses") return saidIn(client, records);
  return records
    .map(({ value }) => (value?.["type"] === "response.output_text.delta" ? String(value["delta"]) : ""))
    .join("");
}

/** The text of a whole reply. */
export function saidWhole(client: DialectName, body: string): string {
  type Part = { text?: string };
  const reply = JSON.parse(body) as {
    choices?: { message: { content: string } }[];
    content?: Part[];
    output?: { content?: Part[] }[];
  };
  if (client === "chat") return reply.choices?.[0]?.message.content ?? "";
  const parts = client === "messages" ? reply.content : reply.output?.flatMap(({ content = [] }) => content);
  return (parts ?? []).map(({ text = "" }) => text).join("");
}
