import { expect } from "bun:test";
import type { Clock } from "../../src/lib/clock.ts";
import { BEHIND_PROXY, startApp, type TestApp, type UsageRow, vendorAt } from "../support/app.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { HIDDEN_MODEL, type Mode, type Side, type SseRecord } from "./wires.ts";

export const PATH: Record<Side, string> = { chat: "/v1/chat/completions", messages: "/v1/messages" };

/** A gateway with a scripted vendor of each dialect, and a spare vendor of the chat dialect behind both. */
export type ScenarioLab = {
  gateway: TestApp;
  vendors: Record<Side, Upstream>;
  spare: Upstream;
  /** Forgets calls, scripts, earlier rows, log lines, and which vendors are in trouble. */
  reset(): void;
  /** Rows written since the last reset. */
  rows(): UsageRow[];
  stop(): Promise<void>;
};

/** Model IDs: one route to a vendor of that dialect, and one that falls back to the spare vendor. */
export const ONE_ROUTE: Record<Side, string> = { chat: "lab/one-chat", messages: "lab/one-messages" };
export const TWO_ROUTES: Record<Side, string> = { chat: "lab/two-chat", messages: "lab/two-messages" };

const row = (id: string, ...vendors: string[]) => ({
  id,
  pricing: "free" as const,
  routes: vendors.map((vendor) => ({ vendor, model: HIDDEN_MODEL })),
});

const ROWS = [
  row(ONE_ROUTE.chat, "vendor-chat"),
  row(ONE_ROUTE.messages, "vendor-messages"),
  row(TWO_ROUTES.chat, "vendor-chat", "vendor-spare"),
  row(TWO_ROUTES.messages, "vendor-messages", "vendor-spare"),
];

/** Starts the lab; `clock` defaults to the system's. */
export async function startScenarioLab(clock?: Clock): Promise<ScenarioLab> {
  const vendors = { chat: startUpstream(), messages: startUpstream() };
  const spare = startUpstream();
  const gateway = await startApp({
    vendors: [
      vendorAt(vendors.chat, "chat", "vendor-chat"),
      vendorAt(vendors.messages, "messages", "vendor-messages"),
      vendorAt(spare, "chat", "vendor-spare"),
    ],
    models: ROWS,
    config: BEHIND_PROXY,
    ...(clock && { clock }),
  });
  // How long is waited between two attempts is the routes' tests to see.
  gateway.app.services.pause = () => Promise.resolve();
  // The ledger takes no row back, so earlier ones are told apart by their request.
  let earlier = new Set<string>();
  return {
    gateway,
    vendors,
    spare,
    reset() {
      for (const upstream of [vendors.chat, vendors.messages, spare]) upstream.reset();
      gateway.app.services.health.forgetTrouble();
      earlier = new Set(gateway.rows().map(({ requestId }) => requestId));
      gateway.log.length = 0;
    },
    rows: () => gateway.rows().filter(({ requestId }) => !earlier.has(requestId)),
    async stop() {
      await gateway.stop();
      for (const upstream of [vendors.chat, vendors.messages, spare]) upstream.close();
    },
  };
}

/** The smallest request of a dialect. */
export function ask(side: Side, model: string, mode: Mode, more: Record<string, unknown> = {}) {
  return {
    model,
    messages: [{ role: "user", content: "Hi" }],
    ...(side === "messages" && { max_tokens: 64 }),
    ...(mode === "stream" && { stream: true }),
    ...more,
  };
}

/** What a client was told of a failure. */
export type Told = {
  status: number;
  code: string;
  type: string;
  message: string;
  param: string | null;
  retry: string | null;
  retryAfter: string | null;
};

type ErrorBody = {
  type?: string;
  request_id?: string;
  error: { message: string; type: string; code: string; param?: string | null };
};

const CHAT_KEYS = ["code", "message", "param", "type"];

/** Checks that a value is an error of the dialect, exactly, and gives what it tells. */
export function readError(side: Side, value: unknown): Omit<Told, "status" | "retry" | "retryAfter"> {
  const body = value as ErrorBody;
  const { error } = body;
  if (side === "chat") {
    expect(Object.keys(body)).toEqual(["error"]);
    expect(Object.keys(error).sort()).toEqual(CHAT_KEYS);
  } else {
    expect(Object.keys(body).sort()).toEqual(["error", "request_id", "type"]);
    expect(body.type).toBe("error");
    expect(body.request_id).toMatch(/^req_\w+$/);
    expect(Object.keys(error).filter((key) => !CHAT_KEYS.includes(key))).toEqual([]);
  }
  expect(error.message.length).toBeGreaterThan(10);
  return { code: error.code, type: error.type, message: error.message, param: error.param ?? null };
}

/** Reads an error answer, and checks what contract 6 says of every one. */
export async function readFailure(side: Side, response: Response): Promise<Told> {
  const { headers, status } = response;
  expect(headers.get("content-type")).toBe("application/json");
  expect(headers.get("x-request-id")).toMatch(/^req_\w+$/);
  expect(headers.get("request-id")).toBe(headers.get("x-request-id"));
  const told = readError(side, JSON.parse(await response.text()));
  return { status, ...told, retry: headers.get("x-should-retry"), retryAfter: headers.get("retry-after") };
}

/** Checks a client's finished stream against contract 7: one terminator and it is last, one finish, blocks in order. */
export function expectFinished(side: Side, records: readonly SseRecord[]): void {
  if (side === "chat") expectFinishedChat(records);
  else expectFinishedMessages(records);
}

function expectFinishedMessages(records: readonly SseRecord[]): void {
  const types = records.map(({ value }) => value?.["type"]).filter((type) => type !== "ping");
  expect(types.at(0)).toBe("message_start");
  expect(types.at(-1)).toBe("message_stop");
  for (const type of ["message_start", "message_delta", "message_stop"]) {
    expect([type, types.filter((one) => one === type).length]).toEqual([type, 1]);
  }
  expect(types).not.toContain("error");
  for (const { event, value } of records) expect(event).toBe(value?.["type"] as string);
  let open = -1;
  let next = 0;
  for (const { value } of records) {
    const type = value?.["type"];
    if (type === "content_block_start") {
      expect([open, value?.["index"]]).toEqual([-1, next]);
      open = next++;
    } else if (type === "content_block_delta") expect(value?.["index"]).toBe(open);
    else if (type === "content_block_stop") {
      expect(value?.["index"]).toBe(open);
      open = -1;
    }
  }
  expect(open).toBe(-1);
}

function expectFinishedChat(records: readonly SseRecord[]): void {
  expect(records.at(-1)?.data).toBe("[DONE]");
  expect(records.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
  const choices = records.flatMap(({ value }) => (value?.["choices"] ?? []) as Record<string, unknown>[]);
  expect(choices[0]?.["delta"]).toMatchObject({ role: "assistant" });
  expect(choices.filter((choice) => choice["finish_reason"] != null)).toHaveLength(1);
  expect(records.filter(({ value }) => value && "error" in value)).toEqual([]);
}

/** Checks that a client's stream ended in an error of its dialect and nothing behind it, no terminator above all; gives what it tells. */
export function expectBroken(side: Side, records: readonly SseRecord[]): Omit<Told, "status" | "retry" | "retryAfter"> {
  for (const { data, value } of records) {
    expect(data).not.toBe("[DONE]");
    expect(value?.["type"]).not.toBe("message_stop");
  }
  const last = records.at(-1);
  if (side === "messages") expect(last?.event).toBe("error");
  expect(records.slice(0, -1).filter(({ value }) => value && ("error" in value || value["type"] === "error"))).toEqual(
    [],
  );
  return readError(side, last?.value);
}

/** The columns of a row that these tables look at. */
export function charged(rows: readonly UsageRow[]) {
  return rows.map(({ outcome, input, output, estimated, attempts, vendor, error }) => ({
    outcome,
    input,
    output,
    estimated,
    attempts,
    vendor,
    error,
  }));
}
