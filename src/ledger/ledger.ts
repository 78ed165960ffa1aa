import type { ErrorCode } from "../canon/errors.ts";
import type { FinishReason } from "../canon/events.ts";
import type { Usage } from "../canon/usage.ts";
import type { Prices } from "./price.ts";

/**
 * How a request ended (contract 5, outcome table). `interrupted`: the process ended in the middle of it; where it died, the next one closed its book.
 * `blocked`: an image that was refused on content grounds.
 */
export type Outcome = "completed" | "client-left" | "timed-out" | "upstream-failed" | "interrupted" | "blocked";

/** A model's prices, with its ID. Give the same object as long as the prices are the same: what is looked up for it is remembered by identity. */
export type ModelPrices = { readonly model: string; readonly prices: Prices };

/** How one request is paid for, on a plan whose accounts pay. */
export type Payment = {
  /** What the plan gives for a spending window, nano-USD (contract 4). */
  windowNano: bigint;
  /** Only for accounts with a real deposit (interface 5 rule 6). */
  premium: boolean;
  /** The reply can be ended in the middle: the hold is a slice that grows while it streams (contract 5). */
  sliced: boolean;
  /** A blocking reply that may be asked for as a stream and put together, where the money is too tight to hold the whole of it. */
  collectable?: boolean;
  /** Output that may be made without being seen, tokens: hidden reasoning, by effort (reliability 3.5 #7). */
  unseenOutput: number;
  /** What is written to the vendor's cache may be written for an hour, which has a price of its own. */
  cachesLong?: boolean;
  /** The largest output of the model, and its whole window, tokens; where they are known. */
  maxOutputTokens?: number;
  contextLength?: number;
};

export type HoldRequest = {
  requestId: string;
  accountId: string;
  keyId: string;
  model: string;
  dialect: string;
  stream: boolean;
  /** Estimate of the input, tokens; made when it is asked for. */
  estimateInput(): number;
  /** The client's ceiling on output tokens, of each reply. */
  maxOutputTokens?: number;
  /** How many requests of its key's cap it counts as; absent: one. 0: a further call of a request that is counted already. */
  requests?: number;
  /** Replies that are asked for at once; absent: one. */
  choices?: number | undefined;
  /** The model's whole window, tokens, where it is known: what a vendor counts beyond it is not believed. */
  contextLength?: number;
  /** Undefined: no price is known. */
  prices?: ModelPrices | undefined;
  /** Undefined: counted, and not paid for (plan `local`). */
  payment?: Payment | undefined;
  /** What `payment` would be, for a key with caps in money of its own on a plan that does not pay. */
  terms?: Payment | undefined;
};

/** What a request came to: written once, before the client sees the end of its answer. */
export type Settlement = {
  outcome: Outcome;
  vendor: string;
  upstreamModel: string;
  usage: Usage;
  /** What each call of a vendor came to, of a reply that took several; together they are `usage`. Absent: one call. */
  rounds?: readonly Usage[];
  /** How many of `rounds`, the last ones, the vendor made on top of the reply: the ceiling that was asked for does not bound their output. */
  apart?: number;
  /** The vendor sent no counts; these are the gateway's own. */
  estimated: boolean;
  finish?: FinishReason;
  error?: ErrorCode;
  attempts: number;
  firstTokenMs?: number;
  durationMs: number;
  /** The reply was ended because the money was (contract 5). */
  ranOut?: boolean;
};

/**
 * What was odd about a charge. `overrun`: it came to more than was set aside; `usage_suspect`: the vendor's count was not believed; `balance`: the reply was
 * ended for want of money.
 */
export const USAGE_FLAGS = ["overrun", "usage_suspect", "balance"] as const;
export type UsageFlag = (typeof USAGE_FLAGS)[number];

/** What a request cost at the price of its time (undefined where none is known), and what the account pays of it, nano-USD. */
export type Charge = {
  costNano: bigint | undefined;
  chargedNano: bigint;
  /** The account's plan pays for what it uses. */
  metered: boolean;
  /** Absent: nothing was odd. */
  flags?: readonly UsageFlag[];
  /** The counts that were written down, where those that were settled could not be (flag `usage_suspect`). */
  believed?: Usage;
};

/** What is known of a reply under way. `ended`: there is no more to come, so that no more than it came to need be set aside. */
export type Reading = { vendor: string; upstreamModel: string; output: number; ended?: true };

/**
 * Called inside the operation of the writer that charges a request, with what it cost, nano-USD: what it writes is on the disk with the charge, or neither is.
 * Not called where nothing is charged, nor where the money is kept in another process.
 */
export type Beside = (costNano: bigint) => void;

/** Money set aside for one request. Resolved exactly once: a second settle or release does nothing. */
export interface Hold {
  /** Output tokens to ask the vendor for at the most; undefined: as many as the client asked for. */
  readonly ceiling: number | undefined;
  /** The vendor is to be asked for a stream, also where the client was promised a whole reply. */
  readonly asStream: boolean;
  /** The money pays for less than is usually set aside at the beginning: it may end before the reply does. */
  readonly short: boolean;
  /**
   * A reply whose estimated output comes to this many tokens needs more money: `extend` is asked. Infinity where nothing is paid, and where
   * the vendor keeps the ceiling by itself.
   */
  readonly growAt: number;
  /**
   * Sets more aside and raises `growAt`. False: there is no more, and the reply is to be ended (contract 5). For a reply that has ended, sets aside what it came
   * to, and what is returned means nothing. Answers at once where the money is kept in this process.
   */
  extend(reading: Reading): boolean | Promise<boolean>;
  /**
   * Takes over what another hold of this ledger has set aside for one more call of the same request: it is used, or given back, with this one's. The most that the
   * model can make rises by one call, and `growAt` with it. Where this hold is closed already, the other one is released. Absent: nothing is set aside.
   */
  absorb?(beside: Hold): Promise<void>;
  /** Durable when the promise resolves: the terminator of a stream waits for it. A second call waits for the first and gives the same. */
  settle(settlement: Settlement, beside?: Beside): Promise<Charge>;
  /** Nothing ran, nothing is charged, no usage row is written. */
  release(): Promise<void>;
  /**
   * The process that served the request died: ends it by the rule of a crash (recovery.ts). Resolves to what was charged; undefined: nothing. Absent: there is
   * nothing to be charged by.
   */
  abandon?(beside?: Beside): Promise<Charge | undefined>;
}

/** The meter's book. Every request that may reach an upstream is held first. */
export interface Ledger {
  /**
   * Throws GatewayError: model_unpriced where an account that pays asks for a model without a price; deposit_required for a premium model
   * without a real deposit; insufficient_quota, with `affordable_output_tokens`, when the account cannot pay for the first slice.
   */
  hold(request: HoldRequest): Hold | Promise<Hold>;
}
