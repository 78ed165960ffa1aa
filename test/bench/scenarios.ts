import { BURST_EVENTS, PACED_EVENTS, type VendorKind } from "./wire.ts";

export type Client = "chat" | "messages" | "responses";

/** One row of the comparison with the bare passthrough. */
export type Scenario = {
  name: string;
  client: Client;
  kind: VendorKind;
  bodyBytes: number;
  /** An agent's conversation of so many turns instead of plain prose. */
  turns?: number;
  connections: number;
  requests: number;
  /** Requests before anything is measured, where a round is not enough for all code to be compiled. */
  warmUp?: number;
  events: number;
  /** Asked by an account whose plan has limits, and that pays: money is set aside and settled for each answer. Else by the local plan's, which counts alone. */
  paid?: true;
  /** Highest ratio to the passthrough we mean to have. */
  target?: number;
  /** Most CPU time of one request we mean to take, milliseconds. */
  targetMs?: number;
};

const BODY_BYTES = 4096;
const LARGE_BODY_BYTES = 100 * 1024;
const AGENT_BYTES = 1024 * 1024;
const AGENT_TURNS = 200;
/** From then on hardly anything is compiled any more. */
const WARM = 15_000;
/** An agent's conversation of 1 MB may cost so much, milliseconds of CPU. */
const AGENT_MS = 25;
/** Across dialects a request may cost so many times the passthrough. */
const ACROSS = 2.6;
const DIAGONAL = 2.0;
/** Limited, held and settled durably (issue 7, Speed), in its own dialect and across. */
const PAID_DIAGONAL = 2.2;
const PAID_ACROSS = 2.7;
/** A body of 100 KB may cost so many times the passthrough of the same. */
const LARGE = 2.2;

const small = (name: string, client: Client, kind: VendorKind, target: number, requests = 15_000): Scenario => ({
  name,
  client,
  kind,
  bodyBytes: BODY_BYTES,
  connections: 32,
  requests,
  warmUp: WARM,
  events: 0,
  target,
});

const CLIENTS: readonly Client[] = ["chat", "messages", "responses"];
const UPSTREAMS = ["chat", "messages", "responses", "gemini"] as const;

/** Every client with every upstream: `--only pairs`. */
const PAIRS: readonly Scenario[] = CLIENTS.flatMap((client) =>
  UPSTREAMS.map((upstream) =>
    small(
      `pairs: ${client} → ${upstream}`,
      client,
      `${upstream}-whole`,
      client === upstream ? DIAGONAL : ACROSS,
      8_000,
    ),
  ),
);

/** `--only agent`. */
const AGENTS: readonly Scenario[] = CLIENTS.flatMap((client) =>
  UPSTREAMS.map((upstream) => ({
    name: `agent of 1 MB: ${client} → ${upstream}`,
    client,
    kind: `${upstream}-whole` as const,
    bodyBytes: AGENT_BYTES,
    turns: AGENT_TURNS,
    connections: 4,
    requests: 60,
    events: 0,
    targetMs: AGENT_MS,
  })),
);

/** One client that waits for each answer: `--only alone`. */
export const ALONE: Scenario = {
  ...small("alone: same dialect", "chat", "chat-whole", DIAGONAL, 3_000),
  connections: 1,
};

/** In a process of their own: `--only paid`. */
export const PAID: readonly Scenario[] = [
  { ...small("paid: same dialect, 4 KB in, 1 KB out", "chat", "chat-whole", PAID_DIAGONAL), paid: true },
  { ...small("paid: messages client, chat vendor", "messages", "chat-whole", PAID_ACROSS), paid: true },
];

export const PACED: Scenario = {
  name: `stream of ${PACED_EVENTS} events, one each 20 ms`,
  client: "chat",
  kind: "chat-paced",
  bodyBytes: BODY_BYTES,
  connections: 100,
  // CPU time is told in hundredths of a second.
  requests: 600,
  events: PACED_EVENTS,
  target: 1.6,
};

export const SCENARIOS: readonly Scenario[] = [
  small("same dialect, 4 KB in, 1 KB out", "chat", "chat-whole", DIAGONAL),
  small("across: messages client, chat vendor", "messages", "chat-whole", ACROSS),
  small("across: chat client, messages vendor", "chat", "messages-whole", ACROSS),
  {
    name: "same dialect, 100 KB in",
    client: "chat",
    kind: "chat-whole",
    bodyBytes: LARGE_BODY_BYTES,
    connections: 16,
    requests: 3_000,
    warmUp: WARM,
    events: 0,
    target: LARGE,
  },
  {
    name: "same dialect, 100 KB of an agent",
    client: "chat",
    kind: "chat-whole",
    bodyBytes: LARGE_BODY_BYTES,
    turns: 26,
    connections: 16,
    requests: 3_000,
    warmUp: WARM,
    events: 0,
    target: LARGE,
  },
  {
    name: `stream of ${BURST_EVENTS} events, burst`,
    client: "chat",
    kind: "chat-burst",
    bodyBytes: BODY_BYTES,
    connections: 16,
    requests: 2_000,
    warmUp: WARM,
    events: BURST_EVENTS,
    target: 1.8,
  },
  PACED,
  ...PAIRS,
  ...AGENTS,
];

/** The agent rows during which a second client asks: how long it waits at most is how long the event loop stood still. */
export const WAITED_FOR: readonly Scenario[] = AGENTS.filter(({ name }) =>
  ["messages → chat", "chat → messages", "messages → messages"].some((pair) => name.endsWith(pair)),
);
