import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ReasoningForm } from "../../src/canon/intent.ts";
import type { ReasoningControl } from "../../src/catalog/entry.ts";
import { isObject } from "../../src/lib/json.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { GREETING } from "../sdk/replies.ts";
import { chat } from "../sdk/vendors/chat.ts";
import { gemini } from "../sdk/vendors/gemini.ts";
import { messages } from "../sdk/vendors/messages.ts";
import { responses } from "../sdk/vendors/responses.ts";
import { GENERATION_PATH, startApp, type TestApp } from "../support/app.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { INTENTS, SHAPES, type Shape } from "./reasoning-table.ts";

type Body = Record<string, unknown>;
const WIRES = { chat, messages, responses, gemini };
type DialectName = keyof typeof WIRES;
type ClientName = "chat" | "messages" | "responses";

const objectAt = (body: Body, ...path: string[]): Body => {
  let at: unknown = body;
  for (const step of path) at = isObject(at) ? at[step] : undefined;
  return isObject(at) ? at : {};
};

const EFFORT_WORDS = new Set(["minimal", "low", "medium", "high", "xhigh", "max"]);
const thinking = (type: string, budget?: number) => ({
  thinking: { type, ...(budget !== undefined && { budget_tokens: budget }) },
});

/** How each dialect asks for an intent of the table; undefined where it has no words for it. */
const ASKS: Record<ClientName, (label: string) => Body | undefined> = {
  chat(label) {
    if (label === "omitted") return {};
    if (label === "none" || EFFORT_WORDS.has(label)) return { reasoning_effort: label };
    if (label === "junk") return { reasoning_effort: "ultra" };
    // The other dialect's object, which clients of this one send too (dialects.md 1.1).
    return label === "disabled" || label === "adaptive" ? thinking(label) : thinking("enabled", Number(label));
  },
  messages(label) {
    if (label === "omitted") return {};
    if (label === "none") return undefined;
    if (EFFORT_WORDS.has(label)) return { ...thinking("adaptive"), output_config: { effort: label } };
    if (label === "junk") return { output_config: { effort: "ultra" } };
    return label === "disabled" || label === "adaptive" ? thinking(label) : thinking("enabled", Number(label));
  },
  responses(label) {
    if (label === "omitted") return {};
    if (label === "none" || EFFORT_WORDS.has(label)) return { reasoning: { effort: label } };
    return label === "junk" ? { reasoning: { effort: "ultra" } } : undefined;
  },
};

const REQUESTS: Record<ClientName, Body> = {
  chat: { messages: [{ role: "user", content: "x" }], max_completion_tokens: 64_000 },
  messages: { messages: [{ role: "user", content: "x" }], max_tokens: 64_000 },
  responses: { input: "x", max_output_tokens: 64_000 },
};

const spellType = (type: unknown): string => (type === "enabled" ? "on" : type === "disabled" ? "off" : `off:${type}`);

/** What stands in an upstream's body of a form's fields, in the spelling of the table (dialects.md 5.1). */
const READS: Partial<Record<ReasoningForm, (body: Body) => string>> = {
  effort(body) {
    const effort = body["reasoning_effort"] ?? objectAt(body, "reasoning")["effort"];
    return effort === undefined ? "-" : effort === "none" ? "off:none" : String(effort);
  },
  "thinking-level": (body) => String(objectAt(body, "generationConfig", "thinkingConfig")["thinkingLevel"] ?? "-"),
  "thinking-type"(body) {
    const { type } = objectAt(body, "thinking");
    return type === undefined ? "-" : spellType(type);
  },
  "thinking-type-effort"(body) {
    const { type } = objectAt(body, "thinking");
    return type === undefined ? "-" : type === "enabled" ? String(body["reasoning_effort"]) : spellType(type);
  },
  "enable-thinking"(body) {
    if (body["enable_thinking"] === undefined) return "-";
    return body["enable_thinking"] === true ? `#${String(body["thinking_budget"])}` : "off";
  },
  "adaptive-switch"(body) {
    const { type } = objectAt(body, "thinking");
    return type === undefined ? "-" : type === "adaptive" ? "on:adaptive" : `off:${String(type)}`;
  },
  "adaptive-effort"(body) {
    const { type } = objectAt(body, "thinking");
    const { effort } = objectAt(body, "output_config");
    return type === "adaptive" ? String(effort) : type === undefined ? "-" : spellType(type);
  },
  "effort-only": (body) => String(objectAt(body, "output_config")["effort"] ?? "-"),
  budget(body) {
    const { type, budget_tokens: tokens } = objectAt(body, "thinking");
    return type === undefined ? "-" : type === "enabled" ? `#${String(tokens)}` : spellType(type);
  },
};

/** Fields through which reasoning is steered, in any dialect: none of them reaches a vendor unless the cell says so. */
const CONTROLS = ["reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "output_config"];

const controlsOf = (body: Body): string[] =>
  [...CONTROLS, "thinkingConfig"].filter((field) => field in { ...objectAt(body, "generationConfig"), ...body });

/** Vendors on which each form stands. */
function vendorsOf(form: ReasoningForm | undefined): DialectName[] {
  if (form === undefined) return ["chat", "messages", "responses", "gemini"];
  if (form === "effort") return ["chat", "responses"];
  if (form === "thinking-level") return ["gemini"];
  return ["thinking-type", "thinking-type-effort", "enable-thinking"].includes(form) ? ["chat"] : ["messages"];
}

const CLIENTS = ["chat", "messages", "responses"] as const;
/** Declared words that are no depth, and the intent of the table that means the same. */
const POSITIONS: ReadonlyMap<string, string> = new Map([
  ["off", "none"],
  ["disabled", "none"],
  ["on", "adaptive"],
  ["adaptive", "adaptive"],
]);

const upstream = startUpstream();
let app: TestApp;

/** A shape of the table as a row of the configuration. */
function rowOf(shape: Shape, index: number, vendor: DialectName) {
  const control: ReasoningControl | undefined = shape.control;
  return {
    id: `lab/shape-${index}-${vendor}`,
    capabilities: { reasoning: true },
    ...(control && {
      reasoning_efforts: { levels: [...control.levels], default: control.default },
      reasoning: {
        form: control.form,
        ...(control.omitted && { omitted: control.omitted }),
        ...(control.alwaysReasons && { always_reasons: true }),
        ...(control.reasonsByDefault && { reasons_by_default: true }),
        ...(control.noOff && { no_off: true }),
        ...(control.offValue !== undefined && { off_value: control.offValue }),
      },
    }),
    routes: [{ vendor: `lab-${vendor}`, model: "gemini-3-lab" }],
  };
}

/** Rows that say levels and nothing of the form that these are written in, or a form that their vendor's dialect cannot write. */
function plainRows() {
  return (Object.keys(WIRES) as DialectName[]).flatMap((vendor) =>
    [undefined, vendor === "chat" ? ("adaptive-effort" as const) : ("enable-thinking" as const)].map((form) => ({
      id: `lab/${form ?? "no-form"}-${vendor}`,
      reasoning_efforts: { levels: ["low", "medium", "high"], default: "medium" },
      ...(form && { reasoning: { form } }),
      routes: [{ vendor: `lab-${vendor}`, model: "gemini-3-lab" }],
    })),
  );
}

const rows = SHAPES.flatMap((shape, index) =>
  vendorsOf(shape.control?.form).map((vendor) => ({ shape, index, vendor })),
);

beforeAll(async () => {
  const vendors = (Object.keys(WIRES) as DialectName[]).map((dialect): Vendor => {
    const { auth, base, path, whole } = WIRES[dialect];
    upstream.always(path("gemini-3-lab", false), json(whole(GREETING, "gemini-3-lab")));
    const baseUrl = base(upstream.url);
    return { id: `lab-${dialect}`, name: dialect, dialect, baseUrl, auth, apiKey: "k", models: "catalog", quirks: {} };
  });
  const shapes = rows.map(({ shape, index, vendor }) => rowOf(shape, index, vendor));
  app = await startApp({ vendors, models: [...shapes, ...plainRows()] });
});
afterAll(async () => {
  await app.stop();
  upstream.close();
});

/** What a vendor is sent for one request: the cell, as the table spells it. */
async function cellOf(client: ClientName, model: string, ask: Body, form: ReasoningForm | undefined): Promise<string> {
  upstream.calls.length = 0;
  const response = await app.post(GENERATION_PATH[client], { model, ...REQUESTS[client], temperature: 0.7, ...ask });
  expect(response.status).toBe(200);
  await response.arrayBuffer();
  const body = upstream.calls[0]?.json;
  if (upstream.calls.length !== 1 || !isObject(body)) throw new Error("not one call with a body");
  const kept = body["temperature"] ?? objectAt(body, "generationConfig")["temperature"];
  // What is taken out is named, wherever the vendor's dialect has it stand.
  const dropped = response.headers.get("x-sluice-dropped")?.split(", ") ?? [];
  expect(dropped.includes("temperature")).toBe(kept === undefined);
  const cell = form === undefined ? "-" : (READS[form]?.(body) ?? "no reader");
  if (cell === "-") expect(controlsOf(body)).toEqual([]);
  return cell + (kept === undefined ? "*" : "");
}

/** The table of interface 4.8 through the front door: what every dialect asks, and what of it a vendor of every form is sent. */
describe("reasoning on the wire (interface 4.8)", () => {
  const ways = rows.flatMap(({ shape, index, vendor }) =>
    (["chat", "messages", "responses"] as const).map((client) => [shape.name, client, vendor, shape, index] as const),
  );
  test.each(ways)("%s: %s client, %s vendor", async (_name, client, vendor, shape, index) => {
    const cells = shape.cells.split(" ");
    const seen: string[] = [];
    const wanted: string[] = [];
    for (const [column, [label]] of INTENTS.entries()) {
      const ask = ASKS[client](label);
      if (!ask) continue;
      const cell = await cellOf(client, `lab/shape-${index}-${vendor}`, ask, shape.control?.form);
      seen.push(`${label}: ${cell}`);
      wanted.push(`${label}: ${cells[column]}`);
    }
    expect(seen).toEqual(wanted);
    expect(seen.length).toBe({ chat: 18, messages: 17, responses: 9 }[client]);
  });

  /** A dialect's field for the word of a depth. */
  const saying: Record<ClientName, (word: string) => Body> = {
    chat: (word) => ({ reasoning_effort: word }),
    messages: (word) => ({ output_config: { effort: word } }),
    responses: (word) => ({ reasoning: { effort: word } }),
  };
  const worded = rows.filter(({ shape }) => shape.control?.levels.some((level) => POSITIONS.has(level)));
  test.each(
    worded.flatMap(({ shape, index, vendor }) =>
      CLIENTS.map((client) => [shape.name, client, vendor, shape, index] as const),
    ),
  )(
    "%s: the words that the catalog lists are known, %s client, %s vendor",
    async (_name, client, vendor, shape, index) => {
      const cells = shape.cells.split(" ");
      const cellFor = (label: string) => cells[INTENTS.findIndex(([known]) => known === label)];
      for (const level of shape.control?.levels ?? []) {
        const label = POSITIONS.get(level);
        if (!label) continue;
        const cell = await cellOf(client, `lab/shape-${index}-${vendor}`, saying[client](level), shape.control?.form);
        expect([level, cell]).toEqual([level, cellFor(label) ?? "no cell"]);
      }
    },
  );

  /** How each dialect says the level `high` when nothing else is known of a model than its levels. */
  const USUAL: Record<DialectName, Body> = {
    chat: { reasoning_effort: "high" },
    messages: { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
    responses: { reasoning: { effort: "high" } },
    gemini: { generationConfig: { thinkingConfig: { thinkingLevel: "high" } } },
  };
  test.each(
    plainRows().flatMap(({ id, routes: [route] }) =>
      CLIENTS.map((client) => [id, client, route?.vendor.slice("lab-".length) as DialectName] as const),
    ),
  )("a level of %s reaches its vendor in the usual form of its dialect, %s client", async (model, client, vendor) => {
    upstream.calls.length = 0;
    const asked = { model, ...REQUESTS[client], ...ASKS[client]("high") };
    const response = await app.post(GENERATION_PATH[client], asked);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(upstream.calls[0]?.json).toMatchObject(USUAL[vendor]);
  });

  test.each([
    ["low", { effort: "low" }, "thinking"],
    ["max", undefined, "thinking, output_config.effort"],
  ])(
    "the effort %s beside thinking that is switched off, of a model that always thinks",
    async (effort, sent, dropped) => {
      const index = SHAPES.findIndex(({ name }) => name === "the messages vendor's own, always thinking");
      const said = { thinking: { type: "disabled" }, output_config: { effort } };
      upstream.calls.length = 0;
      const response = await app.post("/v1/messages", {
        model: `lab/shape-${index}-messages`,
        ...REQUESTS.messages,
        ...said,
      });
      expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, dropped]);
      const body = upstream.calls[0]?.json;
      expect(isObject(body) && [body["thinking"], body["output_config"]]).toEqual([undefined, sent]);
    },
  );

  test("every shape of the interface is there", () => {
    const shapes = SHAPES.map(({ control }) => control?.levels.join(" ") ?? "");
    expect(shapes).toEqual(
      expect.arrayContaining([
        "",
        "low medium high xhigh max",
        "low medium high xhigh",
        "low medium high max",
        "low medium high",
        "low high max",
        "minimal low medium high",
        "none minimal low medium high xhigh max",
        "none high",
        "off on",
        "adaptive disabled",
      ]),
    );
  });
});
