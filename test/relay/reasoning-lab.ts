import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { type App, createApp } from "../../src/app.ts";
import type { Event } from "../../src/canon/events.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { DialectName } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects } from "../../src/dialects/index.ts";
import { createLog } from "../../src/observe/log.ts";
import { GENERATION_PATH as PATHS, PLAIN_CONFIG } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { anthropic, google, openai, plain, type StrictVendor, strictVendor } from "./reasoning-vendors.ts";
import { router } from "./router-vendor.ts";

type Wire = Record<string, unknown>;

const LEVELS = { levels: ["low", "medium", "high"], default: "medium" };

const row = (id: string, form: string, vendor: string, model = "up-1", omitted = "nothing") =>
  ({
    id,
    pricing: "free",
    reasoning_efforts: LEVELS,
    reasoning: { form, omitted },
    routes: [{ vendor, model }],
  }) as const;

/** Model IDs and what stands behind each. */
const MODELS = [
  row("lab/claude-budget", "budget", "strict-anthropic", "claude-1"),
  row("lab/claude-budget-2", "budget", "strict-anthropic", "claude-2"),
  row("lab/claude-dated", "budget", "strict-anthropic", "claude-1-20260101"),
  row("lab/claude-adaptive", "adaptive-effort", "strict-anthropic", "claude-1"),
  row("lab/claude-off", "budget", "strict-anthropic", "claude-1", "off"),
  {
    ...row("lab/claude-between", "adaptive-effort", "strict-anthropic", "claude-1"),
    reasoning: { form: "adaptive-effort", omitted: "off", off_value: "between_tools" },
  },
  row("lab/claude-final", "budget", "strict-final"),
  row("lab/gemini", "thinking-level", "strict-google", "gemini-3-pro"),
  row("lab/gpt", "effort", "strict-openai"),
  row("lab/deepseek", "thinking-type", "strict-deepseek"),
  row("lab/kimi", "thinking-type", "strict-kimi"),
  row("lab/router-gemini", "effort", "strict-router", "google/gemini-3-pro"),
  row("lab/router-claude", "effort", "strict-router", "anthropic/claude-sonnet-4.5"),
  row("lab/router-kimi", "effort", "strict-router", "moonshotai/kimi-k3"),
] as unknown as Config["models"];

export type Vendors = Record<
  "anthropic" | "final" | "google" | "openai" | "deepseek" | "kimi" | "router",
  StrictVendor
>;

function startVendors(): Vendors {
  return {
    anthropic: strictVendor("strict-anthropic", anthropic()),
    final: strictVendor("strict-final", anthropic(true)),
    google: strictVendor("strict-google", google),
    openai: strictVendor("strict-openai", openai),
    deepseek: strictVendor("strict-deepseek", plain(true), {
      reasoningReplay: "reasoning_content",
      reasoningReplayAlways: true,
      maxTokensField: "max_tokens",
    }),
    kimi: strictVendor("strict-kimi", plain(false), {
      reasoningReplay: "reasoning_content",
      reasoningReplayCalls: true,
    }),
    router: strictVendor("strict-router", router(), { reasoningReplay: "reasoning" }),
  };
}

/** A gateway before strict vendors, on a store in a folder, with keys of two accounts. */
export type Lab = {
  readonly app: App;
  readonly store: Store;
  vendors: Vendors;
  clock: ManualClock;
  keys: { own: string; other: string };
  /** Log lines, parsed. */
  log: Wire[];
  folder: string;
  /** Stops the gateway and starts another one on the same folder. */
  restart(): Promise<void>;
  post(path: string, body: unknown, key?: string): Promise<Response>;
  stop(): Promise<void>;
};

/** Starts the lab on a store in `folder`, or in memory. */
export async function startLab(folder?: string): Promise<Lab> {
  const vendors = startVendors();
  const clock = manualClock();
  const lines: Wire[] = [];
  const log = createLog({
    level: "info",
    now: () => clock.now(),
    write: (line) => lines.push(JSON.parse(line) as Wire),
  });
  const start = () => {
    const store = openStore(folder === undefined ? ":memory:" : join(folder, "sluice.db"));
    const config = { ...PLAIN_CONFIG, models: MODELS };
    const all = Object.values(vendors).map((one) => one.vendor);
    return { store, app: createApp({ config, vendors: all, store, clock, log, version: "0.0.0-test" }) };
  };
  let running = start();
  const stop = async () => {
    await running.app.stop();
    running.store.close();
  };
  const keys = await makeKeys(running.app, running.store, clock);
  return {
    get app() {
      return running.app;
    },
    get store() {
      return running.store;
    },
    vendors,
    clock,
    keys,
    log: lines,
    folder: folder ?? "",
    async restart() {
      await stop();
      running = start();
    },
    post: async (path, body, key = keys.own) =>
      running.app.gateway.answerRequest(
        new Request(`http://localhost${path}`, {
          method: "POST",
          headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
          body: JSON.stringify(body),
        }),
      ),
    stop,
  };
}

async function makeKeys(app: App, store: Store, clock: ManualClock): Promise<Lab["keys"]> {
  const writer = new Writer(store, clock);
  const accounts = new Accounts(store, writer, app.keys, clock);
  const own = await accounts.ensureLocal();
  const second = await accounts.create({ name: "second", plan: "local" });
  await writer.close();
  const other = await app.keys.create({ accountId: second.id, name: "other", kind: "api" });
  if (!own) throw new Error("the store was not empty");
  return { own: own.key.key, other: other.key };
}

export type Mode = "stream" | "whole";

/** What a client read of one answer. */
export type Heard = {
  status: number;
  dropped: string | null;
  events: Event[];
  error: string;
  text: string;
  calls: { id: string; name: string; arguments: string; extra?: unknown }[];
  /** The reply itself, where it came whole. */
  body: Wire;
};

async function hear(client: DialectName, mode: Mode, response: Response): Promise<Heard> {
  const raw = await response.text();
  const head = { status: response.status, dropped: response.headers.get("x-sluice-dropped") };
  const nothing = { events: [], text: "", calls: [], body: {} };
  if (response.status !== 200) return { ...head, ...nothing, error: raw };
  const dialect = dialects[client];
  let events: Event[];
  let body: Wire = {};
  if (mode === "whole") {
    body = JSON.parse(raw) as Wire;
    events = dialect.decodeReply(body, { quirks: {} });
  } else {
    const decoder = dialect.decoder({ quirks: {} });
    const splitter = new FrameSplitter();
    events = [...splitter.push(raw), ...splitter.end()].flatMap((frame) => decoder.push(frame));
    events.push(...decoder.end());
  }
  const heard: Heard = { ...head, ...nothing, error: "", calls: [], events, body };
  let kind = "";
  for (const event of events) {
    if (event.type === "block-start") {
      kind = event.block.kind;
      if (event.block.kind === "tool-call") heard.calls.push({ ...event.block, arguments: "" });
    } else if (event.type === "block-delta" && kind === "text") heard.text += event.text;
    else if (event.type === "block-delta" && kind === "tool-call") heard.calls.at(-1)!.arguments += event.text;
    else if (event.type === "error") heard.error = event.error.message;
  }
  return heard;
}

/** A conversation of one client, which keeps text and calls of an answer and forgets its reasoning. */
export class Client {
  readonly #turns: Wire[] = [];
  model: string;
  /** Fields laid over each request. */
  more: Wire = {};
  key: string | undefined;

  constructor(
    private readonly lab: Lab,
    readonly dialect: DialectName,
    model: string,
    readonly mode: Mode,
  ) {
    this.model = model;
  }

  user(text: string): void {
    this.#turns.push({ role: "user", content: text });
  }

  /** Keeps what the answer said, as a client does that knows nothing of reasoning. */
  keep({ text, calls }: Heard): void {
    if (this.dialect === "chat") {
      const tools = calls.map(({ id, name, arguments: given }) => ({
        id,
        type: "function",
        function: { name, arguments: given },
      }));
      this.#turns.push({ role: "assistant", content: text || null, ...(tools.length > 0 && { tool_calls: tools }) });
    } else if (this.dialect === "messages") {
      const blocks = calls.map(({ id, name, arguments: given }) => ({
        type: "tool_use",
        id,
        name,
        input: JSON.parse(given || "{}") as Wire,
      }));
      const said = text === "" ? [] : [{ type: "text", text }];
      this.#turns.push({ role: "assistant", content: [...said, ...blocks] });
    } else {
      if (text !== "")
        this.#turns.push({ type: "message", role: "assistant", content: [{ type: "output_text", text }] });
      // The item's own id comes along, as agents that store items send it.
      for (const { id, name, arguments: given } of calls) {
        this.#turns.push({ type: "function_call", id: `fc_${id}`, call_id: id, name, arguments: given || "{}" });
      }
    }
  }

  /** Puts a turn in as it is. */
  add(...turns: Wire[]): void {
    this.#turns.push(...turns);
  }

  /** Answers the calls, all of them. */
  results(calls: Heard["calls"]): void {
    const text = (name: string) => `result of ${name}`;
    if (this.dialect === "chat") {
      for (const { id, name } of calls) this.#turns.push({ role: "tool", tool_call_id: id, content: text(name) });
    } else if (this.dialect === "messages") {
      const content = calls.map(({ id, name }) => ({ type: "tool_result", tool_use_id: id, content: text(name) }));
      this.#turns.push({ role: "user", content });
    } else {
      for (const { id, name } of calls) {
        this.#turns.push({ type: "function_call_output", call_id: id, output: text(name) });
      }
    }
  }

  body(): Wire {
    const stream = this.mode === "stream" && { stream: true };
    const schema = { type: "object", properties: { city: { type: "string" } } };
    const names = ["weather", "clock"];
    if (this.dialect === "chat") {
      const tools = names.map((name) => ({ type: "function", function: { name, parameters: schema } }));
      return { model: this.model, messages: this.#turns, tools, reasoning_effort: "high", ...stream, ...this.more };
    }
    if (this.dialect === "messages") {
      const tools = names.map((name) => ({ name, input_schema: schema }));
      const thinking = { type: "enabled", budget_tokens: 2000 };
      return { model: this.model, max_tokens: 50_000, messages: this.#turns, tools, thinking, ...stream, ...this.more };
    }
    const tools = names.map((name) => ({ type: "function", name, parameters: schema }));
    return { model: this.model, input: this.#turns, tools, reasoning: { effort: "high" }, ...stream, ...this.more };
  }

  async ask(): Promise<Heard> {
    const response = await this.lab.post(PATHS[this.dialect], this.body(), this.key);
    return hear(this.dialect, this.mode, response);
  }

  /** Asks, keeps the answer, and answers its calls. */
  async step(): Promise<Heard> {
    const heard = await this.ask();
    this.keep(heard);
    if (heard.calls.length > 0) this.results(heard.calls);
    return heard;
  }

  /** The whole loop, and one more question. Gives what was heard at each step. */
  async loop(): Promise<Heard[]> {
    this.user("What is the weather?");
    const heard = [await this.step(), await this.step(), await this.step()];
    this.user("Thanks!");
    return [...heard, await this.ask()];
  }
}

/** Records of the database's files as text, to look for what must not stand in them. */
export async function storedBytes(lab: Lab): Promise<string> {
  const texts = ["sluice.db", "sluice.db-wal"].map(async (name) => {
    const file = Bun.file(join(lab.folder, name));
    return (await file.exists()) ? Buffer.from(await file.arrayBuffer()).toString("latin1") : "";
  });
  return (await Promise.all(texts)).join("");
}
