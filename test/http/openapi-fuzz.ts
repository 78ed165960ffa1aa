import fc from "fast-check";
import { misfit } from "../support/json-schema.ts";
import { type Draft, draftsOf } from "./openapi-drafts.ts";
import { FAULTY_MODELS, type FuzzLab } from "./openapi-fuzz-lab.ts";
import { Memory } from "./openapi-memory.ts";
import { type Operation, operationsOf } from "./openapi-operations.ts";

/** How long the gateway itself may wait before it asks a vendor in trouble again (reliability 6.2), ms. */
const PAUSE_MS = 2_000;

/** Between the seeds of two operations: runs whose seeds are near share none. */
const SEED_STEP = 1_000_003;

/** Headers that say something of this gateway, beside those of HTTP itself and what the browser is told. */
const OWN_HEADERS = /^(?:request-id|retry-after|idempotency-|preference-|www-|anthropic-|x-(?!content-type|accel))/;

const asksFaulty = (body: unknown) =>
  FAULTY_MODELS.some((model) => (JSON.stringify(body) ?? "").includes(`"${model}"`));

export type Fault = { operation: string; what: string; request: string; answer: string };

export type FuzzReport = {
  requests: number;
  faults: Fault[];
  /** How often each operation gave each status. */
  statuses: Map<string, Map<number, number>>;
  /** Of the answers of vendors that do not fail. */
  slowestMs: number;
};

/** A refusal of a body that fits the document, where no schema can say what is wrong. */
export type Excuse = { operation: RegExp; message: RegExp; why: string };

type Sent = { operation: Operation; draft: Draft; url: string; init: RequestInit; body: unknown; fitting: boolean };

/** One run of random requests against a gateway. */
export class Fuzz {
  readonly report: FuzzReport = { requests: 0, faults: [], statuses: new Map(), slowestMs: 0 };
  readonly #memory: Memory;

  constructor(
    private readonly lab: FuzzLab,
    private readonly excuses: readonly Excuse[],
    /** No reply may take longer, ms. */
    private readonly mostMs: number,
  ) {
    this.#memory = new Memory(lab.own);
  }

  /** Sends `each` requests of every operation, mixed, `lanes` at a time. */
  async run(seed: number, each: number, lanes = 1): Promise<FuzzReport> {
    const operations = operationsOf(this.lab.document);
    const work = operations.flatMap((operation, place) => {
      const drafts = fc.sample(draftsOf(operation, this.lab), { seed: seed + place * SEED_STEP, numRuns: each });
      return drafts.map((draft, at) => ({ operation, draft, at: (at + place / operations.length) / each }));
    });
    work.sort((one, other) => one.at - other.at);
    const queue = work.values();
    const lane = async () => {
      for (const { operation, draft } of queue) await this.#ask(this.#prepare(operation, draft));
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    return this.report;
  }

  #prepare(operation: Operation, draft: Draft): Sent {
    const fill = (value: unknown) => this.#memory.fill(value);
    let missing = false;
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = fill(draft.path[name]);
      if (value === undefined) missing = true;
      return encodeURIComponent(String(value ?? "none"));
    });
    const query = draft.query
      .map(([name, value]) => [name, fill(value)] as const)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value).toWellFormed())}`);
    const body = fill(draft.body);
    const init: RequestInit = { method: operation.method, headers: this.#headers(draft) };
    if (operation.body) init.body = JSON.stringify(body) ?? "null";
    // Filled slots and what JSON leaves out may have changed the body: only what is really sent is held against the document.
    const fits =
      !operation.body || misfit(JSON.parse(String(init.body)), operation.body, this.lab.document) === undefined;
    const url = `${path}${query.length > 0 ? `?${query.join("&")}` : ""}`;
    return { operation, draft, url, init, body, fitting: draft.kind === "valid" && fits && !missing };
  }

  #headers({ caller, both, headers }: Draft): Headers {
    const sent = new Headers({ "content-type": "application/json" });
    // Each from an address of its own, so that one caller's wrong keys are not another's.
    sent.set("x-forwarded-for", `203.0.113.${this.report.requests % 250}`);
    const key = this.lab.keys[caller];
    if (key !== "")
      sent.set(
        this.report.requests % 3 === 0 ? "x-api-key" : "authorization",
        this.report.requests % 3 === 0 ? key : `Bearer ${key}`,
      );
    if (both) sent.set("x-api-key", "sk-sluice-other");
    for (const [name, value] of headers) if (value !== undefined) sent.set(name, String(value));
    return sent;
  }

  async #ask(sent: Sent): Promise<void> {
    this.report.requests++;
    const startedAt = performance.now();
    const response = await this.lab.gateway.call(sent.url, sent.init);
    const text = await response.text();
    const tookMs = performance.now() - startedAt;
    // A vendor that fails is asked once more, after up to two seconds (reliability 6.2): how long that takes is no figure of the gateway's.
    const isFaulty = asksFaulty(sent.body);
    if (!isFaulty) this.report.slowestMs = Math.max(this.report.slowestMs, tookMs);
    const counts = this.report.statuses.get(sent.operation.name) ?? new Map<number, number>();
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
    this.report.statuses.set(sent.operation.name, counts);
    const faults = [
      ...(tookMs > this.mostMs + (isFaulty ? PAUSE_MS : 0) ? [`took ${Math.round(tookMs)} ms`] : []),
      ...this.#judge(sent, response, text),
    ];
    for (const what of faults) this.#note(sent, response, text, what);
  }

  #judge(sent: Sent, response: Response, text: string): string[] {
    const { operation } = sent;
    const faults: string[] = [];
    const { status } = response;
    if (!response.headers.has("x-request-id")) faults.push("has no x-request-id");
    if (text.includes("vendor-key-of-")) faults.push("tells a vendor's key");
    // To show the address is what these are for.
    const shown = ["/v1/debug/translate", "/admin/v1/vendors"].includes(operation.path) && status === 200;
    // Whole ports only: the gateway's own may begin with a vendor's.
    const tells = (address: string) => new RegExp(`${RegExp.escape(address)}(?!\\d)`).test(text);
    if (!shown && this.lab.addresses.some(tells)) faults.push("tells a vendor's address");
    const declared = operation.responses[String(status)];
    if (!declared) return [...faults, `status ${status} is not declared`];
    for (const name of response.headers.keys()) {
      if (OWN_HEADERS.test(name) && !declared.headers?.[name])
        faults.push(`header ${name} is not declared for ${status}`);
    }
    const fault = this.#judgeContent(operation, response, text);
    if (fault !== undefined) faults.push(fault);
    return [...faults, ...this.#judgeMeaning(sent, status, text)];
  }

  /** 500 is never right; other faults of the server are the vendor's, or said of a model that is not served. A good body is not refused. */
  #judgeMeaning({ operation, fitting, body }: Sent, status: number, text: string): string[] {
    const code = /"code":"(\w+)"/.exec(text)?.[1] ?? "";
    if (status === 500) return ["status 500"];
    if (status > 500) {
      const unserved = code === "model_unpriced" || code === "vendor_not_configured";
      const expected = unserved || asksFaulty(body);
      return expected ? [] : [`status ${status} (${code}) without a reason`];
    }
    if (!fitting || status !== 400 || (operation.path !== "/mcp/web" && code !== "invalid_request")) return [];
    if (asksFaulty(body)) return [];
    const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? "";
    const excused = this.excuses.some(
      (excuse) => excuse.operation.test(operation.name) && excuse.message.test(message),
    );
    return excused ? [] : [`a body that fits is refused: ${message.slice(0, 200)}`];
  }

  #judgeContent({ path, responses }: Operation, response: Response, text: string): string | undefined {
    const content = responses[String(response.status)]?.content;
    const type = (response.headers.get("content-type") ?? "").split(";", 1)[0] ?? "";
    if (!content) return text === "" ? undefined : `a body of type ${type} is not declared`;
    const declared = content[type];
    if (!declared) return `content of type ${type} is not declared`;
    if (type === "text/event-stream") return this.#judgeStream(text);
    if (type !== "application/json") return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return "is no JSON";
    }
    this.#memory.learn(value, path);
    const fault = misfit(value, declared.schema, this.lab.document);
    return fault === undefined ? undefined : `its body:${fault.startsWith(" ") ? "" : " "}${fault}`;
  }

  /** A stream ends with its terminator or with an error, and with nothing behind it. */
  #judgeStream(text: string): string | undefined {
    const last = text.trimEnd().split("\n\n").at(-1) ?? "";
    const ends = /^data: \[DONE\]$|^event: (?:message_stop|error|response\.\w+)\n|^data: \{"error":/.test(last);
    return ends ? undefined : `a stream ends with ${last.slice(0, 100)}`;
  }

  #note({ operation, draft, url, init }: Sent, response: Response, text: string, what: string): void {
    const request = `${init.method} ${url.slice(0, 300)} as ${draft.caller} (${draft.kind}) ${String(init.body ?? "").slice(0, 1_500)}`;
    this.report.faults.push({
      operation: operation.name,
      what,
      request,
      answer: `${response.status} ${text.slice(0, 400)}`,
    });
  }
}
