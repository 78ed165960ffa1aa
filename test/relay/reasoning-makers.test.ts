import { afterEach, describe, expect, test } from "bun:test";
import { unlinkSync } from "node:fs";
import { join } from "node:path";
import { ProofMakers } from "../../src/relay/reasoning/makers.ts";
import { KEY_FILE } from "../../src/relay/reasoning/seal.ts";
import { KEEP_MS } from "../../src/relay/reasoning/store.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { Client, type Lab, type Mode, startLab, storedBytes } from "./reasoning-lab.ts";
import { LOOP } from "./reasoning-vendors.ts";

type Wire = Record<string, unknown>;

const [FIRST] = LOOP.flatMap((said) => said.flatMap((block) => (block.kind === "think" ? [block.text] : [])));
const folders = temporaryFolders();
let lab: Lab;
afterEach(async () => {
  await lab?.stop();
});

/** A conversation whose first answer came with thinking, as it stands in the client's hands. */
async function answered(client: "messages" | "responses", mode: Mode, folder?: string): Promise<Client> {
  lab = await startLab(folder);
  const talk = new Client(lab, client, "lab/claude-budget", mode);
  talk.user("What is the weather?");
  const heard = await talk.ask();
  const signature = heard.events.find((event) => event.type === "block-signature")?.signature ?? "";
  expect(signature).not.toBe("");
  const encrypted_content = `sluice-signature@claude-1:${signature}`;
  if (client === "responses") {
    if (mode === "whole") expect(JSON.stringify(heard.body)).toContain(encrypted_content);
    const summary = [{ type: "summary_text", text: FIRST }];
    talk.add({ type: "reasoning", summary, encrypted_content });
    talk.keep(heard);
  } else {
    const use = heard.calls.map(({ id, name }) => ({ type: "tool_use", id, name, input: {} }));
    talk.add({ role: "assistant", content: [{ type: "thinking", thinking: FIRST, signature }, ...use] });
  }
  talk.results(heard.calls);
  return talk;
}

const sent = (): string => JSON.stringify(lab.vendors.anthropic.bodies.at(-1));

describe.each([
  ["messages", "whole"],
  ["messages", "stream"],
  ["responses", "whole"],
] as const)("thinking in the hands of a %s client, %s, that goes on with", (client, mode) => {
  test("another Claude model: it is not shown, and its loop goes on without thinking", async () => {
    const talk = await answered(client, mode);
    talk.model = "lab/claude-budget-2";
    const heard = await talk.ask();
    expect([heard.status, heard.dropped]).toEqual([
      200,
      client === "messages" ? "thinking" : "reasoning, reasoning.effort",
    ]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(sent()).not.toContain(`"thinking":${JSON.stringify(FIRST)}`);
    expect(sent()).not.toContain('"signature"');
    expect(lab.vendors.anthropic.bodies.at(-1)).toMatchObject({ thinking: { type: "disabled" } });
  });

  test.each(["lab/claude-budget", "lab/claude-dated"])("its own model as %s: it is shown it", async (model) => {
    const talk = await answered(client, mode);
    talk.model = model;
    const heard = await talk.ask();
    expect([heard.status, heard.dropped]).toEqual([200, null]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(sent()).toContain(`"thinking":${JSON.stringify(FIRST)}`);
  });
});

describe.each(["whole", "stream"] as const)("after a restart a messages client, %s,", (mode) => {
  const rows = () => lab.store.database.query("SELECT maker FROM reasoning_maker").values();

  test("does not bring another model's thinking to a model", async () => {
    const talk = await answered("messages", mode, folders());
    await lab.restart();
    expect(rows()).toEqual([["claude-1"]]);
    talk.model = "lab/claude-budget-2";
    const heard = await talk.ask();
    expect([heard.status, heard.dropped]).toEqual([200, "thinking"]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    const [proof = ""] = JSON.stringify(talk.body()).match(/EqQB[^"]+/) ?? [];
    expect(proof).not.toBe("");
    expect(await storedBytes(lab)).not.toContain(proof);
  });

  test("brings a model its own thinking", async () => {
    const talk = await answered("messages", mode, folders());
    await lab.restart();
    const heard = await talk.ask();
    expect([heard.status, heard.dropped]).toEqual([200, null]);
    expect(sent()).toContain(`"thinking":${JSON.stringify(FIRST)}`);
  });

  const passDay = () => {
    lab.clock.setWall(lab.clock.now() + KEEP_MS);
    return lab.clock.advance(10 * 60_000);
  };

  test.each([
    ["key", () => unlinkSync(join(lab.folder, KEY_FILE)), 1],
    ["time", passDay, 0],
  ] as const)("knows of no maker any more once its %s has gone", async (_what, pass, left) => {
    const talk = await answered("messages", mode, folders());
    await pass();
    expect(rows()).toHaveLength(left);
    await lab.restart();
    talk.model = "lab/claude-budget-2";
    expect((await talk.ask()).dropped).toBeNull();
    expect(sent()).toContain(`"thinking":${JSON.stringify(FIRST)}`);
  });
});

describe("who made a proof", () => {
  const foreign = (makers: ProofMakers, maker: string, proof: string) => makers.foreignTo(maker)?.(proof);

  test("is known of those that were noted, and of no other", () => {
    const makers = new ProofMakers();
    expect(foreign(makers, "a", "one")).toBe(false);
    expect(makers.foreignTo("a")).toBeUndefined();
    makers.note("one", "a");
    expect(foreign(makers, "a", "one")).toBe(false);
    expect(foreign(makers, "b", "one")).toBe(true);
    expect(foreign(makers, "b", "two")).toBe(false);
  });

  test("is forgotten of the oldest first", () => {
    const makers = new ProofMakers(undefined, 2);
    for (const proof of ["one", "two", "one", "three"]) makers.note(proof, "a");
    expect(["one", "two", "three"].map((proof) => foreign(makers, "b", proof))).toEqual([true, false, true]);
  });

  test("is read once, with the first proof, and kept with what it makes room for", () => {
    let reads = 0;
    const kept: unknown[] = [];
    const digest = (proof: string) => BigInt.asIntN(64, Bun.hash.wyhash(proof, 7n));
    const makers = new ProofMakers(
      {
        proofSeed: 7n,
        makers: (most) => {
          reads++;
          expect(most).toBe(2);
          return [
            [digest("one"), "a"],
            [digest("two"), "a"],
          ];
        },
        keepMaker: (...given) => void kept.push(given),
      },
      2,
    );
    const isForeign = makers.foreignTo("b");
    expect(reads).toBe(0);
    expect(isForeign?.("one")).toBe(true);
    makers.note("three", "b");
    makers.learn(String(digest("three")), "b");
    expect(["one", "two", "three"].map((proof) => foreign(makers, "c", proof))).toEqual([false, true, true]);
    expect(reads).toBe(1);
    expect(kept).toEqual([
      [digest("three"), "b", digest("one")],
      [digest("three"), "b", undefined],
    ]);
  });
});

test("a whole reply of plain thinking is marked for messages clients, and comes back as text", async () => {
  lab = await startLab();
  const talk = new Client(lab, "messages", "lab/deepseek", "whole");
  talk.user("What is the weather?");
  const heard = await talk.ask();
  const content = heard.body["content"] as Wire[];
  expect(content[0]?.["type"]).toBe("thinking");
  expect(content[0]?.["signature"]).toMatch(/^unsigned:up-1#\w+_0$/);
  talk.add({ role: "assistant", content });
  talk.results(heard.calls);
  expect((await talk.ask()).status).toBe(200);
  expect(lab.vendors.deepseek.refusals).toEqual([]);
  expect(JSON.stringify(lab.vendors.deepseek.bodies.at(-1))).toContain(`"reasoning_content":${JSON.stringify(FIRST)}`);
});

test("plain thinking is marked for responses clients, whose SDKs send it back for that, and comes back as text", async () => {
  lab = await startLab();
  const talk = new Client(lab, "responses", "lab/deepseek", "whole");
  talk.user("What is the weather?");
  const heard = await talk.ask();
  const output = heard.body["output"] as Wire[];
  expect(output[0]?.["type"]).toBe("reasoning");
  expect(output[0]?.["encrypted_content"]).toMatch(/^sluice-unsigned@up-1:rs_\w+_0$/);
  for (const item of output) talk.add(item);
  talk.results(heard.calls);
  expect((await talk.ask()).status).toBe(200);
  expect(lab.vendors.deepseek.refusals).toEqual([]);
  expect(JSON.stringify(lab.vendors.deepseek.bodies.at(-1))).toContain(`"reasoning_content":${JSON.stringify(FIRST)}`);
});

test.each([
  ["messages", "whole"],
  ["messages", "stream"],
  ["responses", "whole"],
  ["responses", "stream"],
] as const)("no two blocks of plain thinking bear the same mark: %s, %s", async (dialect, mode) => {
  lab = await startLab();
  const talk = new Client(lab, dialect, "lab/deepseek", mode);
  talk.user("What is the weather?");
  const ask = async () => (await lab.post(`/v1/${dialect}`, talk.body())).text();
  const marks = [await ask(), await ask()].map((said) => /(?:sluice-)?unsigned[@:]up-1[^"]*/.exec(said)?.[0]);
  expect(marks[0]).toBeDefined();
  expect(marks[0]).not.toBe(marks[1]);
});

test("thinking that stays within the dialect is not marked, also where its reply is written anew", async () => {
  lab = await startLab();
  const unsigned = {
    id: "m",
    type: "message",
    role: "assistant",
    model: "claude-1",
    content: [
      { type: "thinking", thinking: "Hm.", signature: "" },
      { type: "text", text: "Yes.\n\nNo." },
    ],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 2 },
  };
  Object.assign(lab.vendors.anthropic.vendor, { serve: () => Promise.resolve(Response.json(unsigned)) });
  const talk = new Client(lab, "messages", "lab/claude-budget", "whole");
  talk.user("What is the weather?");
  talk.more = { stop_sequences: ["\n\n"] };
  const { body } = await talk.ask();
  expect(body).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "\n\n" });
  expect(body["content"]).toEqual([
    { type: "thinking", thinking: "Hm.", signature: "" },
    { type: "text", text: "Yes." },
  ]);
});
