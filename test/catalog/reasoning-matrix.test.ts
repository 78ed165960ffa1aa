import { describe, expect, test } from "bun:test";
import type { ReasoningOrder } from "../../src/canon/intent.ts";
import { CREATED_AT, type Entry, type ReasoningControl } from "../../src/catalog/entry.ts";
import { planReasoning } from "../../src/catalog/reasoning.ts";
import { INTENTS, SHAPES } from "./reasoning-table.ts";

function entryOf(reasoning: ReasoningControl | undefined): Entry {
  return {
    id: "lab/model",
    displayName: "Model",
    ownedBy: "Lab",
    modality: "chat",
    accessTier: "free",
    capabilities: { vision: false, tools: false, reasoning: true },
    ...(reasoning && { reasoning }),
    routes: [{ vendor: "lab", model: "model" }],
  };
}

function spell(order: ReasoningOrder, active: boolean): string {
  const mark = active ? "*" : "";
  if (order.kind === "nothing") return `-${mark}`;
  if (order.kind === "level") return order.level + mark;
  if (order.kind === "budget") return `#${order.tokens}${mark}`;
  if (order.kind === "keep") return `keep${mark}`;
  return order.value === undefined ? order.kind + mark : `${order.kind}:${order.value}${mark}`;
}

describe("reasoning matrix (interface 4.8)", () => {
  for (const shape of SHAPES) {
    const cells = shape.cells.split(" ");
    test(`${shape.name} has a cell for every intent`, () => expect(cells).toHaveLength(INTENTS.length));
    for (const [index, [label, intent]] of INTENTS.entries()) {
      test(`${shape.name}: ${label}`, () => {
        const { order, active } = planReasoning(intent, entryOf(shape.control));
        expect(spell(order, active)).toBe(cells[index] as string);
        if ("form" in order) expect(order.form).toBe(shape.control?.form as typeof order.form);
      });
    }
  }
});

describe("a model whose control is unknown", () => {
  const CELLS = "keep keep keep* keep* keep* keep* keep* keep* - keep keep* keep keep* keep* keep* keep* keep* keep*";
  for (const [index, [label, intent]] of INTENTS.entries()) {
    test(label, () => {
      const { order, active } = planReasoning(intent, { ...entryOf(undefined), uncharted: true });
      expect(spell(order, active)).toBe(CELLS.split(" ")[index] as string);
    });
  }
});

test("models have a date that says it is unknown", () => expect(Date.parse(CREATED_AT)).toBe(0));
