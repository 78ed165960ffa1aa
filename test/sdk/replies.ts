import type { Part } from "../support/upstream.ts";

/** One thing that a model does in a reply; `pieces` are the deltas of its stream. `id` tells calls and proofs apart. */
export type Step =
  | { kind: "reasoning"; id: string; pieces: readonly string[] }
  | { kind: "text"; pieces: readonly string[] }
  /** `namespace`: that a responses vendor's model says it in; the other wires have none. */
  | { kind: "call"; id: string; name: string; pieces: readonly string[]; namespace?: string };

/** What a vendor answers: the meaning, which every vendor of the lab writes in its own wire protocol. */
export type Reply = {
  steps: readonly Step[];
  finish: "stop" | "length" | "stop-sequence" | "calls" | "filter";
  stopSequence?: string;
};

/** Every reply counts the same: 20 fresh and 5 cached tokens in, 12 out, 4 of them spent on reasoning. */
export const COUNTS = { fresh: 20, cached: 5, output: 12, reasoning: 4 } as const;

/** The first records of a stream up to and with its first text, and the rest: for answers that stop in the middle. */
export function splitAfterText(records: readonly string[], text: string): { begun: Part[]; rest: Part[] } {
  const at = records.findIndex((record) => record.includes(JSON.stringify(text).slice(1, -1)));
  if (at < 0) throw new Error(`no record holds ${text}`);
  return { begun: records.slice(0, at + 1), rest: records.slice(at + 1) };
}

const says = (finish: Reply["finish"], ...pieces: string[]): Reply => ({ steps: [{ kind: "text", pieces }], finish });

export const GREETING = says("stop", "Grüße", " aus dem", " Labor 🙂", "!");
export const CUT = says("length", "One,", " two,", " thr");
export const REPORT = says("stop", "Paris has 18 °C,", " Oslo 3 °C.");
export const FILTERED = says("filter", "I can", "not go on");
export const STOPPED: Reply = { ...says("stop-sequence", "The list", " is "), stopSequence: "END" };
export const AS_JSON = says("stop", '{"city":"Pa', 'ris","degrees"', ":18}");

const PARIS: Step = {
  kind: "call",
  id: "Paris",
  name: "get_weather",
  pieces: ['{"ci', 'ty":"Par', 'is","unit":"°C"}'],
};
const OSLO: Step = { kind: "call", id: "Oslo", name: "get_weather", pieces: ['{"city":', '"Oslo"}'] };
export const ONE_CALL: Reply = { steps: [PARIS], finish: "calls" };
export const TWO_CALLS: Reply = { steps: [PARIS, OSLO], finish: "calls" };

export const REASONED: Reply = {
  steps: [
    { kind: "reasoning", id: "sum", pieces: ["Two and two", " make four."] },
    { kind: "text", pieces: ["Fo", "ur."] },
  ],
  finish: "stop",
};

/** An agent's three turns: it thinks and calls, thinks and calls two at once, thinks and answers. */
export const THREE_TURNS: readonly Reply[] = [
  {
    steps: [
      { kind: "reasoning", id: "first", pieces: ["I need", " the weather."] },
      { kind: "text", pieces: ["I will", " look."] },
      PARIS,
    ],
    finish: "calls",
  },
  {
    steps: [
      { kind: "reasoning", id: "second", pieces: ["Now the", " others."] },
      OSLO,
      { kind: "call", id: "Rome", name: "get_weather", pieces: ['{"city":"Ro', 'me"}'] },
    ],
    finish: "calls",
  },
  {
    steps: [
      { kind: "reasoning", id: "third", pieces: ["All", " known."] },
      { kind: "text", pieces: ["Paris 18 °C, ", "Oslo 3 °C, Rome 20 °C."] },
    ],
    finish: "stop",
  },
];
