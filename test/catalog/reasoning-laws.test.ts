import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { EFFORTS, REASONING_FORMS, type ReasoningIntent, type ReasoningOrder } from "../../src/canon/intent.ts";
import type { Entry, ReasoningControl } from "../../src/catalog/entry.ts";
import { effortOfBudget, planReasoning } from "../../src/catalog/reasoning.ts";
import { builtInRows, toEntry } from "../../src/catalog/rows.ts";

const DEPTHS = ["minimal", "low", "medium", "high", "xhigh", "max"];

const scale = fc.oneof(
  fc
    .tuple(fc.constantFrom(undefined, "none", "off", "disabled"), fc.subarray(DEPTHS, { minLength: 1 }))
    .map(([off, graded]) => (off === undefined ? graded : [off, ...graded])),
  fc.constantFrom(["off", "on"], ["adaptive", "disabled"]),
);

const control: fc.Arbitrary<ReasoningControl> = scale.chain((levels) =>
  fc.record(
    {
      levels: fc.constant(levels),
      default: fc.constantFrom(...levels),
      form: fc.constantFrom(...REASONING_FORMS),
      omitted: fc.constantFrom("nothing" as const, "off" as const, "default" as const, "lowest" as const),
      alwaysReasons: fc.boolean(),
      reasonsByDefault: fc.boolean(),
      noOff: fc.boolean(),
    },
    { requiredKeys: ["levels", "default", "form", "omitted"] },
  ),
);

const intent: fc.Arbitrary<ReasoningIntent> = fc.oneof(
  fc.constantFrom<ReasoningIntent>(
    { kind: "omitted" },
    { kind: "off" },
    { kind: "adaptive" },
    { kind: "unrecognised" },
  ),
  fc.constantFrom(...EFFORTS).map((effort): ReasoningIntent => ({ kind: "effort", effort })),
  fc.nat({ max: 200_000 }).map((tokens): ReasoningIntent => ({ kind: "budget", tokens })),
);

function entryOf(reasoning: ReasoningControl): Entry {
  return {
    id: "lab/model",
    displayName: "Model",
    ownedBy: "Lab",
    modality: "chat",
    accessTier: "free",
    capabilities: { vision: false, tools: false, reasoning: true },
    reasoning,
    routes: [{ vendor: "lab", model: "model" }],
  };
}

/** Depth of an order that asks for one, 0 for all that does not. */
function depthOf(order: ReasoningOrder): number {
  if (order.kind === "level") return DEPTHS.indexOf(order.level) + 1;
  if (order.kind === "budget") return DEPTHS.indexOf(effortOfBudget(order.tokens)) + 1;
  return 0;
}

/** Every model that has a control, as it is in the catalog. */
const steered = builtInRows.map((row) => toEntry(row, true)).filter((entry) => entry.reasoning);

const isTwoPositions = ({ levels }: ReasoningControl) =>
  levels.some((level) => !DEPTHS.includes(level)) && levels.filter((level) => DEPTHS.includes(level)).length === 1;

describe("laws of reasoning control", () => {
  test("nothing is upgraded, except on models that always reason, two positions, and minimal for off (rules 2, 3, 7)", () => {
    const check = (entry: Entry, effort: (typeof EFFORTS)[number]) => {
      const { order } = planReasoning({ kind: "effort", effort }, entry);
      const reasoning = entry.reasoning as ReasoningControl;
      const asked = DEPTHS.indexOf(effort) + 1;
      const lowest = DEPTHS.find((depth) => reasoning.levels.includes(depth));
      if (depthOf(order) <= asked) return;
      if (order.kind === "level" && order.level === "minimal" && effort === "none") return;
      if (reasoning.alwaysReasons && order.kind === "level") return expect(order.level).toBe(lowest as string);
      if (reasoning.alwaysReasons && order.kind === "budget") return;
      // A budget of `minimal` reads as low, since the table knows no smaller level.
      if (order.kind === "budget" && order.tokens === 1024) return;
      expect(isTwoPositions(reasoning)).toBe(true);
    };
    fc.assert(
      fc.property(control, fc.constantFrom(...EFFORTS), (reasoning, effort) => check(entryOf(reasoning), effort)),
    );
    for (const entry of steered) for (const effort of EFFORTS) check(entry, effort);
  });

  test("a level on the wire is one that the model declares", () => {
    fc.assert(
      fc.property(control, intent, (reasoning, asked) => {
        const { order } = planReasoning(asked, entryOf(reasoning));
        if (order.kind === "level") expect(reasoning.levels).toContain(order.level);
        if (order.kind === "on" && order.value !== undefined) expect(reasoning.levels).toContain(order.value);
        if (order.kind === "off" && order.value !== undefined) expect(reasoning.levels).toContain(order.value);
        expect(order.kind).not.toBe("keep");
      }),
    );
  });

  test("an unrecognised value is as if it were not there, or the lowest level of a model that always reasons (rule 4)", () => {
    fc.assert(
      fc.property(control, (reasoning) => {
        const entry = entryOf(reasoning);
        const junk = planReasoning({ kind: "unrecognised" }, entry);
        if (!reasoning.alwaysReasons) return expect(junk).toEqual(planReasoning({ kind: "omitted" }, entry));
        if (junk.order.kind === "level") {
          expect(junk.order.level).toBe(DEPTHS.find((depth) => reasoning.levels.includes(depth)) as string);
        }
      }),
    );
  });

  test("an omitted field sends nothing where the model's own default is to apply", () => {
    fc.assert(
      fc.property(control, (reasoning) => {
        const { order } = planReasoning({ kind: "omitted" }, entryOf({ ...reasoning, omitted: "nothing" }));
        expect(order).toEqual({ kind: "nothing" });
      }),
    );
  });

  test("off never switches on, and leaves sampling alone unless the model reasons all the same", () => {
    fc.assert(
      fc.property(control, (reasoning) => {
        const { order, active } = planReasoning({ kind: "off" }, entryOf(reasoning));
        if (!reasoning.alwaysReasons) expect(order.kind).not.toBe("on");
        if (order.kind === "off" && !reasoning.alwaysReasons) expect(active).toBe(false);
        if (depthOf(order) > 1) expect(reasoning.alwaysReasons).toBe(true);
      }),
    );
  });

  test("a route's own form is the one the order is written in", () => {
    const entry = entryOf({ levels: ["low", "high"], default: "high", form: "adaptive-effort", omitted: "off" });
    const route = { vendor: "hub", model: "a/b", form: "reasoning-object" as const };
    expect(planReasoning({ kind: "effort", effort: "high" }, entry, route).order).toEqual({
      kind: "level",
      form: "reasoning-object",
      level: "high",
    });
    expect(planReasoning({ kind: "omitted" }, entry, route).order).toEqual({ kind: "off", form: "reasoning-object" });
  });

  test("a row's own word for on is no level, though every object has something of that name", () => {
    const levels = ["off", "constructor"];
    const entry = entryOf({ levels, default: "constructor", form: "budget", omitted: "nothing" });
    expect(planReasoning({ kind: "effort", effort: "high" }, entry).order).toEqual({ kind: "on", form: "budget" });
  });

  test("another vendor is not told the model's own odd word for off", () => {
    const entry = entryOf({
      levels: ["low", "high"],
      default: "high",
      form: "adaptive-effort",
      omitted: "off",
      offValue: "between_tools",
    });
    const route = { vendor: "hub", model: "a/b", form: "reasoning-object" as const };
    expect(planReasoning({ kind: "off" }, entry, route).order).toEqual({ kind: "nothing" });
  });

  test("fields that only a reasoning model refuses are kept while it is switched off", () => {
    const entry: Entry = {
      ...entryOf({ levels: ["none", "high"], default: "high", form: "effort", omitted: "nothing", refuses: ["stop"] }),
      refuses: ["logprobs"],
    };
    expect(planReasoning({ kind: "off" }, entry).refused).toEqual(["logprobs"]);
    expect(planReasoning({ kind: "adaptive" }, entry).refused).toEqual(["logprobs", "stop"]);
  });
});

describe("the catalog's own models", () => {
  const plan = (id: string, asked: ReasoningIntent) => {
    const entry = steered.find((candidate) => candidate.id === id);
    if (!entry) throw new Error(`no steered model ${id}`);
    return planReasoning(asked, entry, entry.routes[0]);
  };

  test("the messages vendor's models do not reason unasked, save those that cannot but; off is said where they would, and nowhere else", () => {
    for (const entry of steered.filter((candidate) => candidate.id.startsWith("anthropic/"))) {
      const { order, active } = planReasoning({ kind: "omitted" }, entry, entry.routes[0]);
      const { noOff = false, reasonsByDefault = false } = entry.reasoning ?? {};
      const kind = reasonsByDefault && !noOff ? "off" : "nothing";
      expect([entry.id, order.kind, active]).toEqual([entry.id, kind, noOff]);
    }
  });

  test("the chat vendor's newest always get an effort, unasked their default", () => {
    for (const id of ["openai/gpt-6-astra", "openai/gpt-6.1-terra", "openai/gpt-5.6-luna", "openai/gpt-5.5"]) {
      expect(plan(id, { kind: "omitted" }).order).toEqual({ kind: "level", form: "effort", level: "medium" });
    }
    expect(plan("openai/gpt-6-astra", { kind: "off" }).order).toMatchObject({ kind: "level", level: "low" });
    expect(plan("openai/gpt-6-sol", { kind: "off" }).order).toEqual({ kind: "off", form: "effort", value: "none" });
  });

  test("penalties reach the chat vendor only with reasoning switched off", () => {
    expect(plan("openai/gpt-5.4", { kind: "off" }).refused).not.toContain("presence_penalty");
    expect(plan("openai/gpt-5.4", { kind: "effort", effort: "low" }).refused).toContain("presence_penalty");
  });
});
