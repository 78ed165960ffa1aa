import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";
import { json, type Script, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import type { Reply } from "./replies.ts";
import { chat } from "./vendors/chat.ts";
import type { Faults } from "./vendors/checker.ts";
import { gemini } from "./vendors/gemini.ts";
import { messages } from "./vendors/messages.ts";
import { responses } from "./vendors/responses.ts";
import type { VendorWire } from "./vendors/wire.ts";

/** Dialects that vendors speak. */
export const DIALECTS = ["chat", "messages", "responses", "gemini"] as const;
export type DialectName = (typeof DIALECTS)[number];
/** Dialects that the official SDKs speak: openai has two. */
export const CLIENTS = ["chat", "messages", "responses"] as const;
export type ClientName = (typeof CLIENTS)[number];

export const WIRES: Record<DialectName, VendorWire> = { chat, messages, responses, gemini };

/** Blocking requests are cut off after this many seconds here (contract 2, `limits`): soon, and not so soon that a busy machine cannot answer in time. */
export const BLOCKING_SECONDS = 8;

/** Given to the SDKs: without one, @anthropic-ai/sdk refuses to ask for a long answer in one piece. */
export const TIMEOUT_MS = 30_000;

/** The keys the vendors take: they never leave the gateway for anybody else. */
export const apiKeyOf = (dialect: DialectName) => `labkey-${dialect}-0123456789`;

export type ModelKind = "plain" | "thinker";
/** The vendors' own names of their two models. One vendor's names say what its models can. */
export const upstreamModel = (dialect: DialectName, kind: ModelKind) =>
  `${dialect === "gemini" ? "gemini-3.1-" : ""}lab-${kind === "plain" ? "1" : "r1"}-2026-05-01`;

/** A vendor of one dialect that is as strict as the real one. */
export type LabVendor = {
  wire: VendorWire;
  upstream: Upstream;
  /** What was wrong with the requests that arrived. A test asserts that nothing was. */
  faults: Faults;
  /** Answers the calls with `replies`, the last one for ever, streamed where the call asks for a stream. */
  play(...replies: readonly Reply[]): void;
  /** Answers every call with a script of its own. */
  script(script: Script): void;
  /** Answers the next call with a script of its own. */
  once(script: Script): void;
  reset(): void;
};

/** The compiled gateway with a strict vendor per dialect behind it, and both official SDKs before it. */
export type Lab = {
  vendors: Record<DialectName, LabVendor>;
  gateway: RunningBinary;
  /** A place of the web that this gateway may fetch from. */
  web: Upstream;
  openai(options?: { apiKey?: string; maxRetries?: number }): OpenAI;
  anthropic(options?: { apiKey?: string; maxRetries?: number }): Anthropic;
  /** Model ID of this gateway for a vendor's model. */
  model(dialect: DialectName, kind: ModelKind): string;
  /** Forgets every call and script of every vendor; gives what was wrong with their calls. */
  reset(): Faults;
  /** As an operator's SIGHUP: vendors that are left alone because they failed are asked again. */
  calm(): Promise<void>;
  stop(): Promise<void>;
};

/** A whole answer to a call that asks for a stream or not; borders of chunks fall inside records and characters. */
export function answerOf(wire: VendorWire, reply: Reply): Script {
  return (call) => {
    const { stream, model } = wire.asks(call);
    if (!stream) return json(wire.whole(reply, model));
    return sse(wire.records(reply, model).join(""), { chunk: 7 });
  };
}

/** Starts one such vendor by itself. */
export function startVendor(dialect: DialectName): LabVendor {
  const upstream = startUpstream();
  const faults: Faults = [];
  const wire = WIRES[dialect];
  const checked =
    (script: Script): Script =>
    (call) => {
      faults.push(...wire.check(call, apiKeyOf(dialect)));
      return typeof script === "function" ? script(call) : script;
    };
  const kinds = ["plain", "thinker"] as const;
  const modes = kinds.flatMap((kind) => [true, false].map((stream) => wire.path(upstreamModel(dialect, kind), stream)));
  const paths = [...new Set(modes)];
  const script = (answer: Script) => {
    for (const path of paths) upstream.always(path, checked(answer));
  };
  return {
    wire,
    upstream,
    faults,
    script,
    play(...replies) {
      let calls = 0;
      script((call) => {
        const answer = answerOf(wire, replies[Math.min(calls++, replies.length - 1)] as Reply);
        return typeof answer === "function" ? answer(call) : answer;
      });
    },
    once(answer) {
      for (const path of paths) upstream.answer(path, checked(answer));
    },
    reset() {
      upstream.reset();
      faults.length = 0;
    },
  };
}

/** How each vendor takes the reasoning of its thinker. */
export const FORMS = {
  chat: "effort",
  messages: "adaptive-effort",
  responses: "effort",
  gemini: "thinking-level",
} as const satisfies Record<DialectName, string>;

/** The configuration file: a vendor of every dialect, and a plain and a reasoning model on each. */
function configure(vendors: Record<DialectName, LabVendor>, web: Upstream): unknown {
  const models = DIALECTS.flatMap((dialect) => [
    {
      id: `lab/${dialect}-plain`,
      pricing: "free",
      capabilities: { tools: true, vision: true, reasoning: false },
      routes: [{ vendor: `lab-${dialect}`, model: upstreamModel(dialect, "plain") }],
    },
    {
      id: `lab/${dialect}-thinker`,
      pricing: "free",
      capabilities: { tools: true, vision: true, reasoning: true },
      reasoning_efforts: { levels: ["low", "medium", "high"], default: "medium" },
      reasoning: { form: FORMS[dialect], omitted: "nothing", ...(dialect === "responses" && { always_reasons: true }) },
      routes: [{ vendor: `lab-${dialect}`, model: upstreamModel(dialect, "thinker") }],
    },
  ]);
  const rows = DIALECTS.map((dialect) => ({
    id: `lab-${dialect}`,
    dialect,
    base_url: WIRES[dialect].base(vendors[dialect].upstream.url),
    api_key: apiKeyOf(dialect),
    auth: WIRES[dialect].auth,
    // A vendor that shows its reasoning in this dialect wants it back in a tool loop (dialects.md 4.8 #8).
    ...(dialect === "chat" && { quirks: { reasoning_replay: "reasoning_content" } }),
  }));
  return {
    local_discovery: false,
    limits: { blocking_seconds: BLOCKING_SECONDS },
    web: { fetch: { allow_hosts: [new URL(web.url).host] } },
    vendors: rows,
    models,
  };
}

/** Builds and starts everything; `stop` ends and removes it. */
export async function startLab(): Promise<Lab> {
  const folder = makeFolder();
  const vendors = Object.fromEntries(DIALECTS.map((dialect) => [dialect, startVendor(dialect)])) as Lab["vendors"];
  const web = startUpstream();
  const file = join(folder, "lab.json");
  writeFileSync(file, JSON.stringify(configure(vendors, web)), { mode: 0o600 });
  const gateway = await startBinary(["serve", "--port", "0", "--config", file], { folder });
  return {
    vendors,
    gateway,
    web,
    openai: ({ apiKey = gateway.key, maxRetries = 0 } = {}) =>
      new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries, timeout: TIMEOUT_MS }),
    anthropic: ({ apiKey = gateway.key, maxRetries = 0 } = {}) =>
      new Anthropic({ apiKey, baseURL: gateway.url, maxRetries, timeout: TIMEOUT_MS }),
    model: (dialect, kind) => `lab/${dialect}-${kind}`,
    reset() {
      const all = DIALECTS.map((dialect) => vendors[dialect]);
      const places = [...all.map((vendor) => vendor.upstream), web];
      const faults = all.flatMap((vendor) => vendor.faults);
      faults.push(...places.flatMap(({ unexpected }) => unexpected.map(({ path }) => `nobody asks for ${path}`)));
      for (const vendor of all) vendor.reset();
      web.reset();
      return faults;
    },
    async calm() {
      const taken = () => gateway.stderr.split("read again and taken over").length;
      const before = taken();
      gateway.child.kill("SIGHUP");
      await until(() => taken() > before, "the configuration to be read again");
    },
    async stop() {
      gateway.child.kill("SIGKILL");
      await gateway.child.exited;
      for (const vendor of Object.values(vendors)) vendor.upstream.close();
      web.close();
      removeFolder(folder);
    },
  };
}
