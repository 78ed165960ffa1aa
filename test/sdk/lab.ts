import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { isObject } from "../../src/lib/json.ts";
import { makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";
import { type Script, startUpstream, type Upstream } from "../support/upstream.ts";
import { ANSWERS, type Reply } from "./replies.ts";
import { checkChatRequest, checkMessagesRequest, type Faults } from "./requests.ts";

export const DIALECTS = ["chat", "messages"] as const;
export type DialectName = (typeof DIALECTS)[number];

/** Blocking requests are cut off after this many seconds here (contract 2, `limits`). */
export const BLOCKING_SECONDS = 2;

/** Given to the SDKs: without one, @anthropic-ai/sdk refuses to ask for a long answer in one piece. */
export const TIMEOUT_MS = 30_000;

/** The keys the vendors take: they never leave the gateway for anybody else. */
export const API_KEY = { chat: "labkey-chat-0123456789", messages: "labkey-messages-0123456789" } as const;
const PATH = { chat: "/v1/chat/completions", messages: "/v1/messages" } as const;
/** The vendors' own names of their two models. */
export const UPSTREAM_MODEL = { plain: "lab-1-2026-05-01", thinker: "lab-r1-2026-05-01" } as const;

/** A vendor of one dialect that is as strict as the real one. */
export type LabVendor = {
  upstream: Upstream;
  /** What was wrong with the requests that arrived. A test asserts that nothing was. */
  faults: Faults;
  /** Answers every call with `reply`, streamed when the call asks for a stream. */
  play(reply: Reply): void;
  /** Answers every call with a script of its own. */
  script(script: Script): void;
  reset(): void;
};

/** The compiled gateway with a strict vendor per dialect behind it, and both official SDKs before it. */
export type Lab = {
  vendors: Record<DialectName, LabVendor>;
  gateway: RunningBinary;
  openai(options?: { apiKey?: string; maxRetries?: number }): OpenAI;
  anthropic(options?: { apiKey?: string; maxRetries?: number }): Anthropic;
  /** Model ID of this gateway for a vendor's model. */
  model(dialect: DialectName, kind: keyof typeof UPSTREAM_MODEL): string;
  stop(): Promise<void>;
};

/** Starts one such vendor by itself. */
export function startVendor(dialect: DialectName): LabVendor {
  const upstream = startUpstream();
  const faults: Faults = [];
  const check = dialect === "chat" ? checkChatRequest : checkMessagesRequest;
  const always = (script: Script) =>
    upstream.always(PATH[dialect], (call) => {
      faults.push(...check(call, API_KEY[dialect]));
      return typeof script === "function" ? script(call) : script;
    });
  return {
    upstream,
    faults,
    play(reply) {
      always((call) => {
        const body = isObject(call.json) ? call.json : {};
        return ANSWERS[dialect](reply, String(body["model"]), body["stream"] === true);
      });
    },
    script: always,
    reset() {
      upstream.reset();
      faults.length = 0;
    },
  };
}

/** The configuration file: two vendors, and a plain and a reasoning model on each. */
function configure(vendors: Record<DialectName, LabVendor>): unknown {
  const models = DIALECTS.flatMap((dialect) => [
    {
      id: `lab/${dialect}-plain`,
      pricing: "free",
      capabilities: { tools: true, vision: true, reasoning: false },
      routes: [{ vendor: `lab-${dialect}`, model: UPSTREAM_MODEL.plain }],
    },
    {
      id: `lab/${dialect}-thinker`,
      pricing: "free",
      capabilities: { tools: true, vision: true, reasoning: true },
      reasoning_efforts: { levels: ["low", "medium", "high"], default: "medium" },
      reasoning: { form: dialect === "chat" ? "effort" : "adaptive-effort", omitted: "nothing" },
      routes: [{ vendor: `lab-${dialect}`, model: UPSTREAM_MODEL.thinker }],
    },
  ]);
  return {
    local_discovery: false,
    limits: { blocking_seconds: BLOCKING_SECONDS },
    vendors: [
      { id: "lab-chat", dialect: "chat", base_url: `${vendors.chat.upstream.url}/v1`, api_key: API_KEY.chat },
      {
        id: "lab-messages",
        dialect: "messages",
        base_url: vendors.messages.upstream.url,
        api_key: API_KEY.messages,
        auth: "x-api-key",
      },
    ],
    models,
  };
}

/** Builds and starts everything; `stop` ends and removes it. */
export async function startLab(): Promise<Lab> {
  const folder = makeFolder();
  const vendors = { chat: startVendor("chat"), messages: startVendor("messages") };
  const file = join(folder, "lab.json");
  writeFileSync(file, JSON.stringify(configure(vendors)), { mode: 0o600 });
  const gateway = await startBinary(["serve", "--port", "0", "--config", file], { folder });
  return {
    vendors,
    gateway,
    openai: ({ apiKey = gateway.key, maxRetries = 0 } = {}) =>
      new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries, timeout: TIMEOUT_MS }),
    anthropic: ({ apiKey = gateway.key, maxRetries = 0 } = {}) =>
      new Anthropic({ apiKey, baseURL: gateway.url, maxRetries, timeout: TIMEOUT_MS }),
    model: (dialect, kind) => `lab/${dialect}-${kind}`,
    async stop() {
      gateway.child.kill("SIGKILL");
      await gateway.child.exited;
      for (const vendor of Object.values(vendors)) vendor.upstream.close();
      removeFolder(folder);
    },
  };
}
