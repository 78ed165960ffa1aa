import { afterEach, describe, expect, test } from "bun:test";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { reasoningKey, reasoningState } from "../../src/db/schema-reasoning.ts";
import { KEY_FILE } from "../../src/relay/reasoning/seal.ts";
import { KEEP_MS } from "../../src/relay/reasoning/store.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { Client, type Heard, type Lab, type Mode, startLab, storedBytes } from "./reasoning-lab.ts";
import { LOOP, type Said, THOUGHTS } from "./reasoning-vendors.ts";

const folders = temporaryFolders();
let lab: Lab;

const open = async (): Promise<void> => {
  lab = await startLab();
};
/** On a store in a folder, where the disk matters. */
const openFolder = async (): Promise<void> => {
  lab = await startLab(folders());
};

afterEach(async () => {
  await lab?.stop();
});

const CLIENTS = ["chat", "messages", "responses"] as const;
const MODES: readonly Mode[] = ["whole", "stream"];
const CASES = CLIENTS.flatMap((client) => MODES.map((mode) => [client, mode] as const));

const vendorOf = (model: string) =>
  ({
    "lab/claude-budget": "anthropic",
    "lab/claude-adaptive": "anthropic",
    "lab/claude-final": "final",
    "lab/gemini": "google",
    "lab/gpt": "openai",
    "lab/deepseek": "deepseek",
    "lab/kimi": "kimi",
  })[model] as keyof Lab["vendors"];

describe("a loop of three turns by clients that forget all reasoning", () => {
  for (const model of [
    "lab/claude-budget",
    "lab/claude-adaptive",
    "lab/claude-final",
    "lab/gemini",
    "lab/gpt",
    "lab/deepseek",
    "lab/kimi",
  ]) {
    test.each(CASES)(`%s client, %s, ${model}: nothing refused, nothing lost`, async (dialect, mode) => {
      await open();
      const client = new Client(lab, dialect, model, mode);
      const heard = await client.loop();
      const vendor = lab.vendors[vendorOf(model)];
      expect(vendor.refusals).toEqual([]);
      expect(heard.map(({ status, error }) => [status, error])).toEqual(Array(4).fill([200, ""]));
      expect(heard[2]?.text).toBe("It rains in Ulm.\n\nNot in Bonn.");
      expect(heard[3]?.text).toBe("You are welcome.");
      // The turns with calls came back with their reasoning. The last, which had none, is remembered where the client has no place for what the vendor
      // says of it: chat clients for all, messages clients for texts that OpenAI marks.
      const isAllKept = dialect === "chat" || (dialect === "messages" && model === "lab/gpt");
      const kept = isAllKept ? THOUGHTS : THOUGHTS.slice(0, 2);
      expect(vendor.returned()).toEqual(kept);
      expect(heard.map(({ dropped }) => dropped)).toEqual(Array(4).fill(null));
      expect(lab.log.filter(({ level }) => level !== "info")).toEqual([]);
    });
  }
});

/** A conversation that stands in the middle of its loop: the first answer is kept, its calls are answered. */
async function midLoop(client: Client): Promise<Heard> {
  client.user("What is the weather?");
  return client.step();
}

const rowsOf = ({ store }: Lab) => store.query.select().from(reasoningState).all();
const keysOf = ({ store }: Lab) => store.query.select().from(reasoningKey).all();

/** What each client calls its wish for reasoning. */
const WISH = { chat: "reasoning_effort", messages: "thinking", responses: "reasoning.effort" };
/** And reasoning of its earlier turns. */
const EARLIER = { chat: "reasoning_content", messages: "thinking", responses: "reasoning" };

/** Which vendors are told otherwise where their reasoning is lost, and what the client is told of it. */
const LOST = [
  ["lab/claude-budget", WISH],
  ["lab/claude-adaptive", null],
  ["lab/claude-final", WISH],
  ["lab/gemini", "thought_signature"],
  ["lab/gpt", null],
  ["lab/deepseek", EARLIER],
  ["lab/kimi", EARLIER],
] as const;

describe("reasoning that is lost: the request stays legal, and the client is told", () => {
  for (const [model, dropped] of LOST) {
    test.each(CASES)(`%s client, %s, ${model}: another account's conversation`, async (dialect, mode) => {
      await open();
      const client = new Client(lab, dialect, model, mode);
      await midLoop(client);
      client.key = lab.keys.other;
      const heard = await client.ask();
      const vendor = lab.vendors[vendorOf(model)];
      expect([heard.status, heard.error, vendor.refusals]).toEqual([200, "", []]);
      expect(heard.dropped).toBe(typeof dropped === "object" ? (dropped?.[dialect] ?? null) : dropped);
      expect(vendor.returned()).toEqual([]);
      // For its own account it is still there.
      client.key = lab.keys.own;
      const own = await client.ask();
      expect([own.status, own.dropped, vendor.returned()]).toEqual([200, null, THOUGHTS.slice(0, 1)]);
    });
  }

  test("after a day: not put back, and swept away", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    expect(rowsOf(lab)).toHaveLength(1);
    lab.clock.setWall(lab.clock.now() + KEEP_MS - 1);
    expect((await client.ask()).dropped).toBeNull();
    lab.clock.setWall(lab.clock.now() + 1);
    const heard = await client.ask();
    expect([heard.status, heard.dropped]).toEqual([200, WISH.chat]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    const before = rowsOf(lab).length;
    await lab.clock.advance(10 * 60_000);
    // Only what has expired went: the answers to the later questions are younger.
    expect(rowsOf(lab)).toHaveLength(before - 1);
    expect(keysOf(lab).every(({ stateId }) => rowsOf(lab).some(({ id }) => id === stateId))).toBe(true);
  });

  test("a loop whose later turn alone has its thinking is stripped of it, as thinking is off", async () => {
    await open();
    const foreign = new Client(lab, "chat", "lab/gpt", "whole");
    await midLoop(foreign);
    foreign.model = "lab/claude-adaptive";
    await foreign.step();
    foreign.model = "lab/claude-budget";
    const heard = await foreign.ask();
    expect([heard.status, heard.error, heard.dropped]).toEqual([200, "", WISH.chat]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(lab.vendors.anthropic.bodies.at(-1)).toMatchObject({ thinking: { type: "disabled" } });
  });

  test("a turn without thinking inside a loop that began with it keeps thinking on", async () => {
    await open();
    lab.vendors.anthropic.script = [LOOP[0] ?? [], [{ kind: "call", name: "clock", input: {} }], LOOP[2] ?? []];
    const client = new Client(lab, "chat", "lab/claude-budget", "stream");
    client.user("What is the weather?");
    const heard = [await client.step(), await client.step(), await client.step()];
    expect(heard.map(({ dropped, status }) => [dropped, status])).toEqual(Array(3).fill([null, 200]));
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(lab.vendors.anthropic.bodies.at(-1)).toMatchObject({ thinking: { type: "enabled" } });
  });

  test("a strict client is refused before anything is sent", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/gemini", "whole");
    await midLoop(client);
    const sent = lab.vendors.google.bodies.length;
    const strict = {
      "content-type": "application/json",
      authorization: `Bearer ${lab.keys.other}`,
      "x-sluice-strict": "1",
    };
    const response = await lab.app.gateway.answerRequest(
      new Request("http://localhost/v1/chat/completions", {
        method: "POST",
        headers: strict,
        body: JSON.stringify(client.body()),
      }),
    );
    expect(response.status).toBe(400);
    expect(lab.vendors.google.bodies).toHaveLength(sent);
  });
});

describe("what stands in the store", () => {
  test("is not readable, and its key is the user's own file", async () => {
    await openFolder();
    for (const model of ["lab/claude-budget", "lab/gemini", "lab/gpt", "lab/deepseek", "lab/kimi"]) {
      await new Client(lab, "chat", model, "stream").loop();
    }
    expect(rowsOf(lab).length).toBeGreaterThan(10);
    const bytes = await storedBytes(lab);
    expect(bytes.length).toBeGreaterThan(10_000);
    expect(bytes).toContain("claude-1");
    for (const secret of ["Bonn", "clock", "I know it all", "EqQB", "gAAA", "functions.tool"]) {
      expect([secret, bytes.includes(secret)]).toEqual([secret, false]);
    }
    const key = statSync(join(lab.folder, KEY_FILE));
    expect([key.mode & 0o777, key.size]).toEqual([0o600, 32]);
  });

  test("outlives a restart", async () => {
    await openFolder();
    const clients = ["lab/claude-budget", "lab/gemini", "lab/gpt", "lab/deepseek", "lab/kimi"].map(
      (model) => new Client(lab, "chat", model, "stream"),
    );
    for (const client of clients) await midLoop(client);
    await lab.restart();
    for (const client of clients) {
      const heard = await client.ask();
      expect([client.model, heard.status, heard.dropped]).toEqual([client.model, 200, null]);
      expect(lab.vendors[vendorOf(client.model)].returned()).toEqual(THOUGHTS.slice(0, 1));
    }
  });

  test("is lost with its key, which is said in the log and nowhere else", async () => {
    await openFolder();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    rmSync(join(lab.folder, KEY_FILE));
    await lab.restart();
    const heard = await client.ask();
    expect([heard.status, heard.dropped]).toEqual([200, WISH.chat]);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(lab.log.filter(({ event }) => event === "reasoning-unreadable")).toHaveLength(1);
  });

  test("is one row for parallel calls, found by each of them", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/gemini", "whole");
    await midLoop(client);
    expect([rowsOf(lab).length, keysOf(lab).length]).toEqual([1, 2]);
  });

  test("is nothing where no reasoning was said, or no reply was finished", async () => {
    await openFolder();
    lab.vendors.anthropic.script = [
      [
        { kind: "text", text: "Hi." },
        { kind: "call", name: "clock", input: {} },
      ],
    ];
    await midLoop(new Client(lab, "chat", "lab/claude-budget", "stream"));
    expect(rowsOf(lab)).toEqual([]);
    expect(await Bun.file(join(lab.folder, KEY_FILE)).exists()).toBe(false);
  });

  test("a store that takes nothing fails no answer", async () => {
    await open();
    lab.store.database.run(
      "CREATE TRIGGER full BEFORE INSERT ON reasoning_state BEGIN SELECT raise(ABORT, 'full'); END",
    );
    const heard = await midLoop(new Client(lab, "chat", "lab/claude-budget", "stream"));
    expect([heard.status, heard.error, heard.calls.length]).toEqual([200, "", 2]);
    expect(lab.log.filter(({ event }) => event === "reasoning-put")).toHaveLength(1);
  });
});

describe("another vendor, another model", () => {
  test("no vendor is shown another's reasoning, and each gets its own again", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    const models = ["lab/gemini", "lab/gpt", "lab/deepseek", "lab/kimi"];
    for (const model of models) {
      client.model = model;
      const heard = await client.ask();
      expect([model, heard.status, heard.error]).toEqual([model, 200, ""]);
      expect([model, lab.vendors[vendorOf(model)].returned()]).toEqual([model, []]);
    }
    client.model = "lab/claude-budget";
    expect((await client.ask()).dropped).toBeNull();
    expect(lab.vendors.anthropic.returned()).toEqual(THOUGHTS.slice(0, 1));
    expect(Object.values(lab.vendors).flatMap(({ refusals }) => refusals)).toEqual([]);
  });

  test("plain reasoning too is for the vendor that said it", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/deepseek", "whole");
    await midLoop(client);
    client.model = "lab/kimi";
    const heard = await client.ask();
    expect([heard.status, heard.dropped, lab.vendors.kimi.returned()]).toEqual([200, "reasoning_content", []]);
    expect(lab.vendors.kimi.refusals).toEqual([]);
  });

  test("a proof is for its model alone; the date of a version makes no other model", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    client.model = "lab/claude-budget-2";
    const other = await client.ask();
    expect([other.status, other.dropped, lab.vendors.anthropic.returned()]).toEqual([200, WISH.chat, []]);
    client.model = "lab/claude-dated";
    const dated = await client.ask();
    expect([dated.status, dated.dropped, lab.vendors.anthropic.returned()]).toEqual([200, null, THOUGHTS.slice(0, 1)]);
  });

  test("where reasoning is switched off none is put back", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    client.more = { reasoning_effort: "none" };
    const heard = await client.ask();
    expect([heard.status, heard.dropped, lab.vendors.anthropic.returned()]).toEqual([200, null, []]);
    expect(lab.vendors.anthropic.bodies.at(-1)).toMatchObject({ thinking: { type: "disabled" } });
  });
});

describe("thinking that goes off inside a loop", () => {
  // Below the model's lowest level nothing is sent, and then it does not think either (interface 4.8 rule 2).
  test.each(["none", "minimal"])("a chat client that asks for %s is not refused", async (effort) => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    await midLoop(client);
    client.more = { reasoning_effort: effort };
    const heard = await client.ask();
    expect([heard.status, heard.error, lab.vendors.anthropic.returned()]).toEqual([200, "", []]);
  });

  test("off that leaves thinking between tools on gets it put back", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-between", "whole");
    client.more = { reasoning_effort: undefined };
    await midLoop(client);
    const heard = await client.ask();
    expect(lab.vendors.anthropic.bodies.at(-1)).toMatchObject({ thinking: { type: "between_tools" } });
    expect([heard.status, heard.dropped, lab.vendors.anthropic.returned()]).toEqual([200, null, THOUGHTS.slice(0, 1)]);
  });

  test.each([{ thinking: { type: "disabled" } }, { thinking: undefined }])(
    "a messages client that carries its thinking and says %p is not refused",
    async (more) => {
      await open();
      const client = new Client(lab, "messages", "lab/claude-off", "whole");
      client.user("What is the weather?");
      const heard = await client.ask();
      client.add({ role: "assistant", content: heard.body["content"] });
      client.results(heard.calls);
      client.more = more;
      const next = await client.ask();
      expect([next.status, next.error, lab.vendors.anthropic.returned()]).toEqual([200, "", []]);
    },
  );
});

describe("call ids that a vendor gives again in each conversation", () => {
  test("belong to the conversation they were said in", async () => {
    await open();
    const { kimi } = lab.vendors;
    const ask = async (question: string, thought: string) => {
      kimi.script = [
        [
          { kind: "think", text: thought },
          { kind: "call", name: "clock", input: {} },
        ],
        LOOP[2] ?? [],
      ];
      const client = new Client(lab, "chat", "lab/kimi", "whole");
      client.user(question);
      const heard = await client.step();
      expect(heard.calls.map(({ id }) => id)).toEqual(["call_0"]);
      return client;
    };
    const first = await ask("My name is Ada. What time is it?", "Ada wants the time.");
    const second = await ask("My name is Bob. What time is it?", "Bob wants the time.");
    await first.ask();
    expect(kimi.returned()).toEqual(["Ada wants the time."]);
    await second.ask();
    expect(kimi.returned()).toEqual(["Bob wants the time."]);
  });

  test("nor are the same words of two conversations one turn", async () => {
    await open();
    const { deepseek } = lab.vendors;
    const say = async (question: string, thought: string) => {
      deepseek.script = [
        [
          { kind: "think", text: thought },
          { kind: "text", text: "Yes." },
        ],
      ];
      const client = new Client(lab, "chat", "lab/deepseek", "whole");
      client.user(question);
      await client.step();
      client.user("Sure?");
      return client;
    };
    const first = await say("Is it Ada?", "It is Ada.");
    const second = await say("Is it Bob?", "It is Bob.");
    await first.ask();
    expect(deepseek.returned()).toEqual(["It is Ada."]);
    await second.ask();
    expect(deepseek.returned()).toEqual(["It is Bob."]);
  });
});

describe("the order of what was said", () => {
  const think = (text: string): Said => ({ kind: "think", text });
  const text = (said: string): Said => ({ kind: "text", text: said });
  const call: Said = { kind: "call", name: "clock", input: {} };

  test("thoughts go back between the texts they stood between, hidden ones too", async () => {
    await open();
    const first = [
      think("one"),
      text("Ab "),
      { kind: "think", text: "hidden", redacted: true } as Said,
      text("cd"),
      call,
    ];
    lab.vendors.anthropic.script = [first, [text("Done.")]];
    const client = new Client(lab, "chat", "lab/claude-budget", "stream");
    await midLoop(client);
    await client.ask();
    const { messages } = lab.vendors.anthropic.bodies.at(-1) as { messages: { content: { type: string }[] }[] };
    const types = messages[1]?.content.map((block) => block.type);
    expect(types).toEqual(["thinking", "text", "redacted_thinking", "text", "tool_use"]);
    expect(messages[1]?.content[1]).toEqual({ type: "text", text: "Ab " } as never);
  });

  test("items of OpenAI stand before the call they led to", async () => {
    await open();
    lab.vendors.openai.script = [[think("one"), call, think("two"), call], [text("Done.")]];
    for (const dialect of CLIENTS) {
      const client = new Client(lab, dialect, "lab/gpt", "whole");
      await midLoop(client);
      const heard = await client.ask();
      expect([dialect, heard.status, heard.error]).toEqual([dialect, 200, ""]);
      const { input } = lab.vendors.openai.bodies.at(-1) as { input: { type: string }[] };
      const types = input.slice(1, 5).map((item) => item.type);
      expect(types).toEqual(["reasoning", "function_call", "reasoning", "function_call"]);
    }
  });

  test("results that come between parallel calls bring no item twice", async () => {
    await open();
    const client = new Client(lab, "responses", "lab/gpt", "whole");
    client.user("What is the weather?");
    const { calls } = await client.ask();
    for (const one of calls) {
      client.keep({ text: "", calls: [one] } as unknown as Heard);
      client.results([one]);
    }
    const heard = await client.ask();
    expect([heard.status, heard.error, lab.vendors.openai.refusals]).toEqual([200, "", []]);
    expect(lab.vendors.openai.returned()).toEqual(THOUGHTS.slice(0, 1));
  });
});

describe("a text that Gemini signed", () => {
  test.each(MODES)("goes back with its signature, %s", async (mode) => {
    await open();
    lab.vendors.google.script = [[{ kind: "text", text: "Four.", signed: true }], [{ kind: "text", text: "Yes." }]];
    const client = new Client(lab, "chat", "lab/gemini", mode);
    client.user("Two and two?");
    expect((await client.step()).text).toBe("Four.");
    client.user("Sure?");
    const heard = await client.ask();
    expect([heard.status, heard.text, heard.dropped]).toEqual([200, "Yes.", null]);
    expect(lab.vendors.google.returned()).toEqual(["Four."]);
  });
});

describe("clients that carry reasoning themselves", () => {
  test("a messages client that sends its blocks back is forwarded untouched", async () => {
    await open();
    const client = new Client(lab, "messages", "lab/claude-budget", "whole");
    client.user("What is the weather?");
    const heard = await client.ask();
    client.add({ role: "assistant", content: heard.body["content"] });
    client.results(heard.calls);
    expect((await client.ask()).status).toBe(200);
    expect(lab.vendors.anthropic.returned()).toEqual(THOUGHTS.slice(0, 1));
    expect(lab.vendors.anthropic.bodies.at(-1)?.["messages"]).toEqual(client.body()["messages"]);
  });

  test.each([
    ["lab/claude-budget", "anthropic"],
    ["lab/claude-final", "final"],
  ] as const)(
    "thinking that a messages client writes behind the text is put back before it, %s",
    async (model, vendor) => {
      await open();
      const client = new Client(lab, "messages", model, "whole");
      client.user("What is the weather?");
      const { body, calls } = await client.ask();
      const [thinking, text, ...rest] = body["content"] as Record<string, unknown>[];
      expect([thinking?.["type"], text?.["type"]]).toEqual(["thinking", "text"]);
      client.add({ role: "assistant", content: [text, thinking, ...rest] });
      client.results(calls);
      const heard = await client.ask();
      expect([heard.status, heard.dropped, lab.vendors[vendor].refusals]).toEqual([200, null, []]);
      expect(lab.vendors[vendor].returned()).toEqual(THOUGHTS.slice(0, 1));
      const sent = JSON.stringify(lab.vendors[vendor].bodies.at(-1));
      expect(sent.indexOf(THOUGHTS[0] ?? "")).toBeLessThan(sent.indexOf(String(text?.["text"])));
    },
  );

  /** As a client that keeps every signature as bytes: what is no base64 comes back as the base64 of itself. */
  const asBytes = (block: Record<string, unknown>) => {
    const signature = String(block["signature"] ?? "");
    const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(signature);
    return signature === "" || isBase64 ? block : { ...block, signature: Buffer.from(signature).toString("base64") };
  };

  test.each([
    ["lab/gpt", "openai"],
    ["lab/gemini", "google"],
  ] as const)("a messages client that keeps signatures as bytes loses nothing, %s", async (model, vendor) => {
    await open();
    const client = new Client(lab, "messages", model, "whole");
    client.user("What is the weather?");
    const heard = await client.ask();
    const content = (heard.body["content"] as Record<string, unknown>[]).map(asBytes);
    // Blocks that have a signature and no text are not kept either.
    client.add({ role: "assistant", content: content.filter((block) => block["thinking"] !== "") });
    client.results(heard.calls);
    const { status, dropped } = await client.ask();
    expect([status, dropped, lab.vendors[vendor].refusals]).toEqual([200, null, []]);
    expect(lab.vendors[vendor].returned()).toEqual(THOUGHTS.slice(0, 1));
  });

  /** As a client of the responses dialect that keeps nothing of a reasoning item but its encrypted content. */
  const bare = ({ id: _id, status: _status, ...item }: Record<string, unknown>) =>
    item["type"] === "reasoning"
      ? { type: "reasoning", summary: [], encrypted_content: item["encrypted_content"] }
      : item;

  /** What is heard at the second turn of a loop by such a client. */
  async function askBare(model: string) {
    const client = new Client(lab, "responses", model, "whole");
    client.more = { store: false, include: ["reasoning.encrypted_content"] };
    client.user("What is the weather?");
    const { body, calls } = await client.ask();
    client.add(...(body["output"] as Record<string, unknown>[]).map(bare));
    client.results(calls);
    return client.ask();
  }

  test.each(["lab/claude-budget", "lab/claude-adaptive", "lab/gemini", "lab/gpt", "lab/deepseek", "lab/kimi"])(
    "a responses client that keeps the encrypted content alone loses no thinking, %s",
    async (model) => {
      await open();
      const heard = await askBare(model);
      const vendor = lab.vendors[vendorOf(model)];
      expect([heard.status, heard.dropped, vendor.refusals]).toEqual([200, null, []]);
      expect(vendor.returned()).toEqual(THOUGHTS.slice(0, 1));
    },
  );

  test("nor does it where the vendor hid a part of it", async () => {
    await open();
    lab.vendors.anthropic.script = [
      [
        { kind: "think", text: "one" },
        { kind: "think", text: "hidden", redacted: true },
        { kind: "call", name: "clock", input: {} },
      ],
      [{ kind: "text", text: "Done." }],
    ];
    const heard = await askBare("lab/claude-budget");
    expect([heard.status, heard.dropped, lab.vendors.anthropic.refusals]).toEqual([200, null, []]);
    const { messages } = lab.vendors.anthropic.bodies.at(-1) as { messages: { content: { type: string }[] }[] };
    expect(messages[1]?.content.map(({ type }) => type)).toEqual(["thinking", "redacted_thinking", "tool_use"]);
  });

  test("what a client of bytes kept of another vendor's thinking is left out for Claude at once", async () => {
    await open();
    const client = new Client(lab, "messages", "lab/gpt", "whole");
    client.user("What is the weather?");
    const heard = await client.ask();
    client.add({ role: "assistant", content: (heard.body["content"] as Record<string, unknown>[]).map(asBytes) });
    client.results(heard.calls);
    client.model = "lab/claude-budget";
    expect((await client.ask()).status).toBe(200);
    expect(lab.vendors.anthropic.refusals).toEqual([]);
    expect(JSON.stringify(lab.vendors.anthropic.bodies)).not.toContain('"signature"');
  });

  test("a chat client that sends the text back without its proof gets both put back", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/claude-budget", "whole");
    client.user("What is the weather?");
    const { body, calls } = await client.ask();
    const { message } = (body["choices"] as { message: Record<string, unknown> }[])[0] ?? { message: {} };
    expect(message["reasoning_content"]).toBe(THOUGHTS[0]);
    client.add(message);
    client.results(calls);
    const heard = await client.ask();
    expect([heard.status, heard.dropped, lab.vendors.anthropic.returned()]).toEqual([200, null, THOUGHTS.slice(0, 1)]);
  });

  test("a chat client that sends DeepSeek's reasoning back is forwarded untouched", async () => {
    await open();
    const client = new Client(lab, "chat", "lab/deepseek", "whole");
    client.user("What is the weather?");
    const { body, calls } = await client.ask();
    const { message } = (body["choices"] as { message: Record<string, unknown> }[])[0] ?? { message: {} };
    client.add({ ...message, reasoning_content: "my own words" });
    client.results(calls);
    await client.ask();
    expect(lab.vendors.deepseek.returned()).toEqual(["my own words"]);
  });

  test.each(MODES)(
    "a chat client of Gemini is shown the signature of a call, and may send it back, %s",
    async (mode) => {
      await open();
      const client = new Client(lab, "chat", "lab/gemini", mode);
      client.user("What is the weather?");
      const body = client.body();
      const raw = await (await lab.post("/v1/chat/completions", body)).text();
      const shown = [...raw.matchAll(/"extra_content":(\{"google":\{"thought_signature":"([^"]+)"\}\})/g)];
      // The first of parallel calls alone has one.
      expect(shown).toHaveLength(1);
      expect(shown[0]?.[2]).toMatch(/^sig\d+abc=$/);
      const id = /"id":"(call_[^"]+)"/.exec(raw)?.[1] ?? "";
      const call = { id, type: "function", function: { name: "weather", arguments: "{}" } };
      client.add({
        role: "assistant",
        content: null,
        tool_calls: [{ ...call, extra_content: JSON.parse(shown[0]?.[1] ?? "") }],
      });
      client.add({ role: "tool", tool_call_id: id, content: "rain" });
      // Another account: nothing is remembered there, so it is the client's own that goes out.
      client.key = lab.keys.other;
      const heard = await client.ask();
      expect([heard.status, heard.error, heard.dropped]).toEqual([200, "", null]);
      expect(lab.vendors.google.returned()).toEqual(THOUGHTS.slice(0, 1));
    },
  );

  test("a model nobody charted: thinking that the client wants and left out is put back, or switched off", async () => {
    await open();
    const client = new Client(lab, "messages", "strict-anthropic/claude-9", "whole");
    await midLoop(client);
    const own = await client.ask();
    expect([own.status, own.dropped, lab.vendors.anthropic.returned()]).toEqual([200, null, THOUGHTS.slice(0, 1)]);
    client.key = lab.keys.other;
    const other = await client.ask();
    expect([other.status, other.dropped, lab.vendors.anthropic.refusals]).toEqual([200, "thinking", []]);
  });
});
