import type { Caller } from "../accounts/caller.ts";
import type { Plans } from "../accounts/plans.ts";
import type { Intent } from "../canon/intent.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Entry } from "../catalog/entry.ts";
import type { ClientDialect, VendorTerms } from "../dialects/dialect.ts";
import type { OfferedTool } from "../dialects/server-tools.ts";
import type { Hold, Ledger } from "../ledger/ledger.ts";
import type { Abort, Leaving } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";
import type { Fields } from "../lib/http1/fields.ts";
import type { JsonText, ObjectText } from "../lib/json-text.ts";
import type { Admission } from "../limits/admission.ts";
import type { Place } from "../limits/body-room.ts";
import type { Limiter, RateState } from "../limits/limiter.ts";
import type { Log } from "../observe/log.ts";
import type { RequestObserver } from "../observe/request-facts.ts";
import type { VendorHealth } from "../vendors/health.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Exchange } from "./exchange.ts";
import type { FetchMedia } from "./fetch-media.ts";
import type { ReasoningState } from "./reasoning/state.ts";
import type { Chunks } from "./reply/chunks.ts";
import type { RunWebTool } from "./run-web-tool.ts";
import type { Running, Visit } from "./running/running.ts";

/** What the way of a request needs of the rest of the house. */
export type Services = {
  clock: Clock;
  log: Log;
  limiter: Limiter;
  catalog: Catalog;
  /** A vendor that is switched on, by its id. */
  vendor(id: string): Vendor | undefined;
  /** How vendors fare: records, breakers, keys that rest. */
  health: VendorHealth;
  /** Waits between two attempts, ms. Default: by the clock, until the request is ended. */
  pause?(waitMs: number): Promise<void>;
  ledger: Ledger;
  plans: Plans;
  running: Running;
  /** Reasoning that vendors want back of earlier turns. */
  reasoning: ReasoningState;
  /** A blocking request is cut off after this (interface 8). */
  blockingMs: number;
  userAgent: string;
  /** Who is let in while there is too much to do. */
  admission?: Admission | undefined;
  /** Keeps figures of requests. */
  observer?: RequestObserver | undefined;
  /** Fetches files for vendors that fetch none. */
  fetchMedia: FetchMedia;
  /** Runs web tools for models whose vendor has none. Absent: they are not served. */
  runWebTool?: RunWebTool;
};

/** A client's request for generation, its body not yet read. */
export type GenerateRequest = {
  client: ClientDialect;
  caller: Caller;
  requestId: string;
  headers: Fields;
  /** Whether the client is still there. */
  left: Leaving;
  /** Throws GatewayError when the body is too large, no JSON or no object. */
  readBody(): JsonText | Promise<JsonText>;
  /** Its place among the requests under way, where it had to wait for something before it could be run. */
  visit?: Visit | undefined;
  /** How its caller's limit stood when it was let in; undefined where nothing is limited. Set on its way. */
  rate?: RateState | undefined;
  /** Where its body is among those that are worked on. Set on its way, where it is large. */
  place?: Place | undefined;
  /** The model it names, once that was read, whether there is one of that name or not. Set on its way. */
  model?: string;
  /** Its book is begun: what becomes of it is recorded. Set on its way. */
  recorded?: boolean;
  /** Its book, where it failed before an answer began: what that took and cost. */
  failed?: Exchange;
  /** Told of the request's book, for whoever must know whether it was charged. */
  onExchange?(exchange: Exchange): void;
};

export type Reply =
  /** `status`: of an answer that is given again; 200 where there is none. */
  | { kind: "whole"; headers: Record<string, string>; body: string; status?: number }
  | {
      kind: "stream";
      headers: Record<string, string>;
      chunks: Chunks;
    };

/** Web tools that are asked for, and that the gateway runs where a vendor does not; with `always`, wherever. */
export type Served = { tools: readonly OfferedTool[]; always: boolean };

/** A request that was let in, and everything decided about it. */
export type Job = {
  request: GenerateRequest;
  services: Services;
  exchange: Exchange;
  abort: Abort;
  /** What the client sent; an empty document once an answer has begun, so that a long stream does not hold it. */
  body: ObjectText;
  intent: Intent;
  entry: Entry;
  /** What of the account's hold decides what is sent: see {@link Hold}. Absent before there is one. */
  money?: Pick<Hold, "ceiling" | "asStream" | "growAt"> | undefined;
  /** Set once a vendor has refused proofs of earlier reasoning. `matching`: it leaves out itself those that do not belong there; `none`: none are sent. */
  proofs?: "matching" | "none";
  /**
   * Set once a vendor has refused the request as it was written: the terms in which it is written for this vendor's model instead (`model`: the vendor's name of
   * it). The vendor has taught them by what it refused; or, with `isPlain`, they are the plainest ones, which every server of the dialect knows. `lasting`: what
   * later requests are written in as well; with `isPlain` those use the plainest terms that they themselves can be written in.
   */
  plainly?: { vendor: Vendor; model: string; lasting?: VendorTerms | undefined; isPlain?: boolean } & VendorTerms;
  /** Set once a vendor of the chat dialect has refused one of OpenAI's two dialects for this model (`model`: its own name of it). `isRight`: the newer one is right. */
  newer?: { vendor: Vendor; model: string; isRight: boolean };
  /** How often the request was sent again after a vendor's refusal has taught how it has to be written. */
  lessons?: number;
  served?: Served | undefined;
  /** What was left out of the body before any vendor was chosen, by its place. */
  lost?: readonly string[] | undefined;
};
