import { afterEach, describe, expect, test } from "bun:test";
import type { DialectName } from "../../src/dialects/dialect.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { Client, type Heard, type Lab, type Mode, startLab, storedBytes } from "./reasoning-lab.ts";
import { THOUGHTS } from "./reasoning-vendors.ts";

const MODELS = ["lab/router-gemini", "lab/router-claude", "lab/router-kimi"] as const;
const CLIENTS = ["chat", "messages", "responses"] as const;
const MODES = ["whole", "stream"] as const;

const folders = temporaryFolders();
let lab: Lab;
afterEach(async () => {
  await lab?.stop();
});

const sent = (): string => JSON.stringify(lab.vendors.router.bodies.at(-1));
const said = ({ status, error }: Heard) => [status, error];

/** A client whose first calls are answered, on a gateway that was started anew since. */
async function midLoop(dialect: DialectName, model: string, mode: Mode): Promise<Client> {
  lab = await startLab(folders());
  const client = new Client(lab, dialect, model, mode);
  client.user("What is the weather?");
  const heard = await client.step();
  expect([...said(heard), heard.calls.length]).toEqual([200, "", 2]);
  await lab.restart();
  return client;
}

describe.each(CLIENTS)("a %s client that forgets reasoning", (dialect) => {
  for (const model of MODELS) {
    test.each(MODES)(`has ${model}'s whole loop, %s: every turn's details come back as they were`, async (mode) => {
      lab = await startLab();
      const heard = await new Client(lab, dialect, model, mode).loop();
      expect(lab.vendors.router.refusals).toEqual([]);
      expect(heard.map(said)).toEqual(Array(4).fill([200, ""]));
      // Those of a turn without calls are found again by chat clients alone.
      expect(lab.vendors.router.returned()).toEqual(dialect === "chat" ? THOUGHTS : THOUGHTS.slice(0, 2));
      expect(sent()).not.toContain('"reasoning":"');
    });
  }

  test.each(MODES)(
    "goes on after a restart, %s; another account and another vendor are shown nothing",
    async (mode) => {
      const client = await midLoop(dialect, "lab/router-gemini", mode);
      expect(await storedBytes(lab)).not.toContain("reasoning.text");
      client.key = lab.keys.other;
      expect(said(await client.ask())).toEqual([200, ""]);
      expect(lab.vendors.router.returned()).toEqual([]);
      client.key = undefined;
      client.model = "lab/kimi";
      expect(said(await client.ask())).toEqual([200, ""]);
      expect(JSON.stringify(lab.vendors.kimi.bodies)).not.toContain("reasoning_details");
      expect(lab.vendors.kimi.returned()).toEqual([]);
      client.model = "lab/router-gemini";
      expect(said(await client.ask())).toEqual([200, ""]);
      expect(lab.vendors.router.returned()).toEqual(THOUGHTS.slice(0, 1));
      expect(lab.vendors.router.refusals).toEqual([]);
    },
  );

  test("is asked for another model: text alone, or nothing where it is refused; the first model gets its own again", async () => {
    const client = await midLoop(dialect, "lab/router-gemini", "stream");
    const returned: string[][] = [];
    for (const model of ["lab/router-kimi", "lab/router-claude", "lab/router-gemini"]) {
      client.model = model;
      expect(said(await client.ask())).toEqual([200, ""]);
      returned.push(lab.vendors.router.returned());
    }
    const [first] = THOUGHTS;
    expect(returned).toEqual([[`plain:${first}`], [], [`${first}`]]);
  });
});

describe.each(["messages", "responses"] as const)("a %s client that brings the reasoning itself", (dialect) => {
  /** Its calls are answered, and the reasoning that it was shown stands before them. */
  async function withReasoning(model: string): Promise<Client> {
    lab = await startLab();
    const client = new Client(lab, dialect, model, "whole");
    client.user("What is the weather?");
    const { body, calls } = await client.ask();
    if (dialect === "messages") client.add({ role: "assistant", content: body["content"] });
    else client.add(...(body["output"] as Record<string, unknown>[]));
    client.results(calls);
    expect(JSON.stringify(client.body())).toContain(THOUGHTS[0]!);
    return client;
  }

  test.each(MODELS)("has %s's details put in the place of its text", async (model) => {
    const client = await withReasoning(model);
    expect(said(await client.ask())).toEqual([200, ""]);
    expect(lab.vendors.router.refusals).toEqual([]);
    expect(lab.vendors.router.returned()).toEqual(THOUGHTS.slice(0, 1));
    expect(sent()).not.toContain('"reasoning":"');
  });

  test("has its text shown to another model, unless that refuses it", async () => {
    const client = await withReasoning("lab/router-gemini");
    client.model = "lab/router-kimi";
    expect(said(await client.ask())).toEqual([200, ""]);
    expect(lab.vendors.router.returned()).toEqual([`plain:${THOUGHTS[0]}`]);
    client.model = "lab/router-claude";
    expect(said(await client.ask())).toEqual([200, ""]);
    expect(lab.vendors.router.returned()).toEqual([]);
  });
});

/** A chat reply of one call, whose message says `more` beside it. */
const oneCall = (more: object) => ({
  id: "gen",
  object: "chat.completion",
  created: 1,
  model: "hidden",
  choices: [
    {
      index: 0,
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "clock", arguments: "{}" } }],
        ...more,
      },
    },
  ],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

/** The assistant turn that `model` is sent after another's reply with `more`, of which the client sends `own` back. */
async function turnAfter(
  more: object,
  own: object = {},
  model = "lab/router-gemini",
): Promise<Record<string, unknown>> {
  lab = await startLab();
  const bodies: Record<string, unknown>[] = [];
  const serve = ({ body }: { body: string }) => {
    bodies.push(JSON.parse(body) as Record<string, unknown>);
    return Promise.resolve(Response.json(oneCall(more)));
  };
  Object.assign(lab.vendors.router.vendor, { serve });
  const client = new Client(lab, "chat", "lab/router-gemini", "whole");
  client.user("What time is it?");
  const { calls } = await client.ask();
  const tools = calls.map(({ id, name }) => ({ id, type: "function", function: { name, arguments: "{}" } }));
  client.add({ role: "assistant", content: null, tool_calls: tools, ...own });
  client.results(calls);
  client.model = model;
  expect((await client.ask()).status).toBe(200);
  const {
    role: _role,
    content: _content,
    tool_calls: _calls,
    ...rest
  } = (bodies.at(-1)!["messages"] as object[])[1] as {
    [field: string]: unknown;
  };
  return rest;
}

describe("a chat client", () => {
  const ENCRYPTED = [{ type: "reasoning.encrypted", data: "abc", format: "openai-responses-v1", id: "rs_1", index: 0 }];

  test("whose model shows nothing of its reasoning but what is encrypted, brings that back", async () => {
    expect(await turnAfter({ reasoning_details: ENCRYPTED })).toEqual({ reasoning_details: ENCRYPTED });
  });

  test("that brings details itself, is left alone, whatever they are", async () => {
    const own = { reasoning_details: [{ type: "reasoning.encrypted", data: "other" }] };
    expect(await turnAfter({ reasoning_details: ENCRYPTED }, own)).toEqual(own);
  });

  test("that brings the text alone, has the details put beside it", async () => {
    const more = { reasoning: "Hm.", reasoning_details: ENCRYPTED };
    const own = { reasoning: "Hm." };
    expect(await turnAfter(more, own)).toEqual(more);
  });

  test("that brings a text of its own to another model, is left alone", async () => {
    const own = { reasoning: "Mine." };
    expect(await turnAfter({ reasoning: "Hm.", reasoning_details: ENCRYPTED }, own, "lab/router-kimi")).toEqual(own);
  });

  test.each([{}, { reasoning_details: "junk" }, { reasoning_details: [] }, { reasoning_details: { 0: "junk" } }])(
    "whose vendor sends %j for details, brings its text back as before",
    async (more) => {
      expect(await turnAfter({ reasoning: "Hm.", ...more })).toEqual({ reasoning: "Hm." });
    },
  );

  test("whose vendor sends more details than are kept, brings nothing back, and its answer is whole", async () => {
    const more = { reasoning: "Hm.", reasoning_details: [{ ...ENCRYPTED[0], data: "x".repeat(1024 * 1024) }] };
    expect(await turnAfter(more)).toEqual({});
    // They are let go of before anybody seals them.
    expect(lab.log.filter(({ event }) => event === "reasoning-too-large")).toEqual([]);
  });
});
