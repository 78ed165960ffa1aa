import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Event } from "../../src/canon/events.ts";
import type { MemoryBlock, ReasoningMemory } from "../../src/canon/memory.ts";
import type { Part, Prompt } from "../../src/canon/prompt.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { reasoningKey, reasoningState } from "../../src/db/schema-reasoning.ts";
import { Writer } from "../../src/db/writer.ts";
import type { DialectName } from "../../src/dialects/dialect.ts";
import { dialects } from "../../src/dialects/index.ts";
import { makerOf, packReasoning } from "../../src/dialects/reasoning/proof.ts";
import { restorePrompt } from "../../src/dialects/reasoning/replay.ts";
import { silentLog } from "../../src/observe/log.ts";
import { Exchange } from "../../src/relay/exchange.ts";
import { type Collected, digestText, ReasoningCollector, TextDigest } from "../../src/relay/reasoning/collector.ts";
import { KEY_FILE, Sealer } from "../../src/relay/reasoning/seal.ts";
import { KEEP_MS, MAX_STATE_BYTES, type ReasoningBounds, ReasoningStore } from "../../src/relay/reasoning/store.ts";
import { temporaryFolders, thrownBy } from "../db/temp-folder.ts";
import { manualClock } from "../support/clock.ts";

type Wire = Record<string, unknown>;

const folder = temporaryFolders();
const opened: Store[] = [];
const openFile = (path = ":memory:"): Store => {
  const store = openStore(path);
  opened.push(store);
  return store;
};

afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

const MEMORY: ReasoningMemory = [
  { kind: "reasoning", text: "Hm.", signature: "sig" },
  { kind: "tool-call", id: "call_1" },
];

function startStore(bounds?: ReasoningBounds, store = openFile()) {
  const clock = manualClock();
  const writer = new Writer(store, clock);
  const states = new ReasoningStore(store, writer, clock, silentLog, bounds);
  const ids = () =>
    store.query
      .select({ id: reasoningState.id })
      .from(reasoningState)
      .all()
      .map(({ id }) => id);
  return { clock, writer, states, store, ids };
}

describe("the store", () => {
  test("gives a state to its account alone, whatever key is asked for", async () => {
    const { states } = startStore();
    await states.put("acct_1", ["k1", "k2"], MEMORY);
    expect(states.find("acct_1", ["k0", "k1", "k2"])).toEqual(
      new Map([
        ["k1", MEMORY],
        ["k2", MEMORY],
      ]),
    );
    const both = states.find("acct_1", ["k1", "k2"]);
    expect(both.get("k1")).toBe(both.get("k2") as ReasoningMemory);
    expect(states.find("acct_2", ["k1", "k2"]).size).toBe(0);
    expect(states.find("acct_1", []).size).toBe(0);
  });

  test("knows makers of proofs for a day, the newest, without the one that made room", async () => {
    const { states, clock, writer } = startStore();
    for (const [digest, gone] of [[1n], [-2n], [3n, 1n], [4n]] as const) {
      states.keepMaker(digest, `maker of ${digest}`, gone);
      await clock.advance(1);
    }
    await writer.close();
    expect(states.makers(9).map(([digest]) => digest)).toEqual([-2n, 3n, 4n]);
    expect(states.makers(2)).toEqual([
      [3n, "maker of 3"],
      [4n, "maker of 4"],
    ]);
    clock.setWall(clock.now() + KEEP_MS - 3);
    expect(states.makers(9).map(([digest]) => digest)).toEqual([3n, 4n]);
  });

  test("a key names the newest state that was kept under it", async () => {
    const { states } = startStore();
    await states.put("acct_1", ["k1"], MEMORY);
    const newer: ReasoningMemory = [{ kind: "reasoning", text: "Newer." }];
    await states.put("acct_1", ["k1"], newer);
    expect(states.find("acct_1", ["k1"]).get("k1")).toEqual(newer);
  });

  test("an account's oldest states make room, and no other account's", async () => {
    const { states, ids, store } = startStore({ accountStates: 3, accountBytes: 1e9, totalBytes: 1e9 });
    await states.put("acct_2", ["other"], MEMORY);
    for (let at = 0; at < 5; at++) await states.put("acct_1", [`k${at}`], MEMORY);
    expect(ids()).toEqual([1, 4, 5, 6]);
    expect(states.find("acct_2", ["other"]).size).toBe(1);
    expect([...states.find("acct_1", ["k0", "k1", "k2", "k3", "k4"]).keys()].sort()).toEqual(["k2", "k3", "k4"]);
    expect(store.query.select().from(reasoningKey).all()).toHaveLength(4);
  });

  test("bytes have bounds too, of an account and of all; the newest state stays whatever it weighs", async () => {
    const { states, ids } = startStore({ accountStates: 100, accountBytes: 250, totalBytes: 1e9 });
    for (let at = 0; at < 4; at++) await states.put("acct_1", [`k${at}`], MEMORY);
    expect(ids()).toEqual([3, 4]);
    const all = startStore({ accountStates: 100, accountBytes: 1e9, totalBytes: 1 });
    await all.states.put("acct_1", ["k1"], MEMORY);
    await all.states.put("acct_2", ["k2"], MEMORY);
    expect(all.ids()).toEqual([2]);
  });

  test("bounds hold over a restart: what is there is counted first", async () => {
    const bounds = { accountStates: 2, accountBytes: 1e9, totalBytes: 1e9 };
    const store = openFile();
    const first = startStore(bounds, store);
    for (let at = 0; at < 2; at++) await first.states.put("acct_1", [`k${at}`], MEMORY);
    const second = startStore(bounds, store);
    await second.states.put("acct_1", ["k2"], MEMORY);
    expect(second.ids()).toEqual([2, 3]);
  });

  test("bounds hold behind a sweep that could not be written: what it did not remove is counted still", async () => {
    const { states, clock, writer, ids } = startStore({ accountStates: 2, accountBytes: 1e9, totalBytes: 1e9 });
    for (const key of ["k0", "k1"]) await states.put("acct_1", [key], MEMORY);
    let isFull = true;
    writer.join({
      write() {
        if (isFull) throw new Error("full");
      },
      forget() {},
    });
    clock.setWall(clock.now() + KEEP_MS);
    await expect(states.sweep()).rejects.toThrow("full");
    isFull = false;
    for (const key of ["k2", "k3"]) await states.put("acct_1", [key], MEMORY);
    expect(ids()).toEqual([3, 4]);
  });

  test("a sweep behind a restart, before anything was counted, makes room and leaves the bounds as they are", async () => {
    const bounds = { accountStates: 2, accountBytes: 1e9, totalBytes: 1e9 };
    const store = openFile();
    const first = startStore(bounds, store);
    await first.states.put("acct_1", ["k0"], MEMORY);
    first.clock.setWall(first.clock.now() + KEEP_MS / 2);
    await first.states.put("acct_1", ["k1"], MEMORY);
    const second = startStore(bounds, store);
    second.clock.setWall(second.clock.now() + KEEP_MS);
    expect(await second.states.sweep()).toBe(1);
    await second.states.put("acct_1", ["k2"], MEMORY);
    expect(second.ids()).toEqual([2, 3]);
    await second.states.put("acct_1", ["k3"], MEMORY);
    expect(second.ids()).toEqual([3, 4]);
  });

  test("a state that is too large is not kept", async () => {
    const { states, ids } = startStore();
    await states.put("acct_1", ["k1"], [{ kind: "reasoning", text: "x".repeat(MAX_STATE_BYTES) }]);
    expect(ids()).toEqual([]);
  });

  test("of more than 16 MiB in one request the newest are put back, whatever their order there", async () => {
    const { states } = startStore();
    const keys = Array.from({ length: 18 }, (_, at) => `k${at}`);
    const text = "x".repeat(MAX_STATE_BYTES - 1_000);
    for (const key of keys) await states.put("acct_1", [key], [{ kind: "reasoning", text }]);
    const found = states.find("acct_1", [...keys.slice(9), ...keys.slice(0, 9)]);
    expect([...found.keys()]).toEqual(keys.slice(2).reverse());
  });

  test("a closed writer rejects nothing here", async () => {
    const { states, writer } = startStore();
    await writer.close();
    await states.put("acct_1", ["k1"], MEMORY);
    expect(states.find("acct_1", ["k1"]).size).toBe(0);
  });

  test("many expired rows go in batches", async () => {
    const { states, clock, ids } = startStore();
    await Promise.all(Array.from({ length: 150 }, (_, at) => states.put("acct_1", [`k${at}`], MEMORY)));
    clock.setWall(clock.now() + 25 * 60 * 60_000);
    await states.put("acct_1", ["fresh"], MEMORY);
    expect(await states.sweep()).toBe(150);
    expect(ids()).toEqual([151]);
    expect(await states.sweep()).toBe(0);
  });
});

describe("sealing", () => {
  test("what is sealed is opened by its owner and key alone, and never after a change", () => {
    const path = join(folder(), "sluice.db");
    const sealer = new Sealer(openFile(path));
    const sealed = sealer.seal("secret words", "acct_1");
    expect(sealer.open(sealed, "acct_1")).toBe("secret words");
    expect(sealed.toString("latin1")).not.toContain("secret");
    expect(sealer.seal("secret words", "acct_1").equals(sealed)).toBe(false);
    expect(thrownBy(() => sealer.open(sealed, "acct_2"))).toBeInstanceOf(Error);
    for (let at = 0; at < sealed.length; at++) {
      const changed = Buffer.from(sealed);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(thrownBy(() => sealer.open(changed, "acct_1"))).toBeInstanceOf(Error);
    }
    expect(thrownBy(() => sealer.open(sealed.subarray(0, 20), "acct_1"))).toBeInstanceOf(Error);
  });

  test("a second sealer on the folder reads the same key; a damaged one is named", () => {
    const path = join(folder(), "sluice.db");
    const store = openFile(path);
    const sealed = new Sealer(store).seal("words", "acct_1");
    expect(new Sealer(store).open(sealed, "acct_1")).toBe("words");
    const key = join(path, "..", KEY_FILE);
    writeFileSync(key, readFileSync(key).subarray(0, 31));
    expect(String(thrownBy(() => new Sealer(store).open(sealed, "acct_1")))).toContain(KEY_FILE);
  });

  test("a store in memory has a key of its own", () => {
    const [one, other] = [openFile(), openFile()];
    const sealed = new Sealer(one).seal("words", "acct_1");
    expect(new Sealer(one).open(sealed, "acct_1")).toBe("words");
    expect(thrownBy(() => new Sealer(other).open(sealed, "acct_1"))).toBeInstanceOf(Error);
  });
});

/** What a collector keeps of a reply. */
function collect(events: Event[], options = { proofs: true, texts: true, maker: "m" }): Collected | undefined {
  let kept: Collected | undefined;
  const collector = new ReasoningCollector(options, (collected) => {
    kept = collected;
    return Promise.resolve();
  });
  collector.take(events);
  return kept;
}

const block = (start: Extract<Event, { type: "block-start" }>["block"], text = "", signature = ""): Event[] => [
  { type: "block-start", block: start },
  ...(text === "" ? [] : [{ type: "block-delta", text } as const]),
  ...(signature === "" ? [] : [{ type: "block-signature", signature } as const]),
  { type: "block-end" },
];
const FINISH: Event = { type: "finish", finish: { reason: "stop" } };

describe("the collector", () => {
  test("keeps reasoning in its order, with the ids of the calls", () => {
    const events = [
      ...block({ kind: "reasoning" }, "a", "s1"),
      ...block({ kind: "text" }, "Hi there"),
      ...block({ kind: "redacted-reasoning", data: "r" }),
      ...block({ kind: "tool-call", id: "c1", name: "f" }, "{}", "s2"),
      ...block({ kind: "opaque", dialect: "messages", value: {} }),
      ...block({ kind: "tool-call", id: "c2", name: "f" }),
      FINISH,
    ];
    const kept = collect(events);
    expect(kept?.memory).toEqual([
      { kind: "reasoning", text: "a", signature: "s1" },
      { kind: "text", length: 8 },
      { kind: "redacted-reasoning", data: "r" },
      { kind: "tool-call", id: "c1", signature: "s2" },
      { kind: "tool-call", id: "c2" },
    ]);
    expect(kept?.callIds).toEqual(["c1", "c2"]);
  });

  test("reasoning without a proof is worth something only where its text is enough", () => {
    const bare = [...block({ kind: "reasoning" }, "a"), ...block({ kind: "text" }, "Hi"), FINISH];
    expect(collect(bare)).toBeUndefined();
    expect(collect(bare, { proofs: false, texts: true, maker: "m" })?.memory[0]).toEqual({
      kind: "reasoning",
      text: "a",
    });
    const mixed = [...block({ kind: "reasoning" }, "a"), ...block({ kind: "reasoning" }, "b", "s"), FINISH];
    expect(collect(mixed)?.memory).toEqual([{ kind: "reasoning", text: "b", signature: "s" }]);
  });

  test("a reply that is not finished leaves nothing, nor one that is too long", () => {
    const events = [...block({ kind: "reasoning" }, "a", "s")];
    expect(collect(events)).toBeUndefined();
    const long = [...block({ kind: "reasoning" }, "x".repeat(MAX_STATE_BYTES), "s"), FINISH];
    expect(collect(long)).toBeUndefined();
    expect(collect([...block({ kind: "text" }, "x".repeat(2 * MAX_STATE_BYTES)), ...events, FINISH])).toBeDefined();
  });

  const TOO_LONG = "x".repeat(MAX_STATE_BYTES + 1);
  test.each<[string, Event[]]>([
    ["its text", block({ kind: "reasoning" }, TOO_LONG, "s")],
    ["its proof", block({ kind: "reasoning" }, "a", TOO_LONG)],
    ["what is hidden", block({ kind: "redacted-reasoning", data: TOO_LONG })],
    [
      "all of it together",
      [1, 2].flatMap(() => block({ kind: "reasoning" }, TOO_LONG.slice(MAX_STATE_BYTES / 2), "s")),
    ],
    ["the row of its blocks", Array.from({ length: 4_097 }, () => block({ kind: "reasoning" }, "a", "s")).flat()],
  ])("a reply of which %s is too long leaves nothing of what comes behind that either", (_what, events) => {
    expect(collect([...events, ...block({ kind: "reasoning" }, "a", "s"), FINISH])).toBeUndefined();
  });

  test("reasoning that is hidden, all of it, is worth keeping; a proof that stands beside no block is none", () => {
    const hidden = block({ kind: "redacted-reasoning", data: "r" }, "", "s");
    expect(collect([...hidden, { type: "block-signature", signature: "s" }, FINISH])?.memory).toEqual([
      { kind: "redacted-reasoning", data: "r" },
    ]);
  });

  test("a text of many pieces is the same as it is whole, however long it is", () => {
    const pieces = Array.from({ length: 100 }, (_, at) => `piece ${at} of a long answer,\n`);
    const digest = new TextDigest();
    for (const piece of pieces) digest.add(piece);
    expect(digest.value).toBe(digestText(pieces.join("")) as string);
  });

  test("white space does not count in a text, and however it is cut it is the same", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" })), fc.nat(40), (pieces, cut) => {
        const [one, other] = [new TextDigest(), new TextDigest()];
        for (const piece of pieces) one.add(piece);
        const characters = [...pieces.join(" \n")];
        other.add(characters.slice(0, cut).join(""));
        other.add(characters.slice(cut).join(""));
        expect(one.value).toBe(other.value);
        expect(digestText(pieces.join("\n"))).toBe(one.value as string);
        expect(one.value === undefined).toBe(pieces.join("").trim() === "");
      }),
    );
    const [one, other] = [new TextDigest(), new TextDigest()];
    one.add("Yes");
    other.add("No");
    expect(one.value).not.toBe(other.value);
  });

  test("an answer is complete when its reasoning is on the disk", async () => {
    const gate = Promise.withResolvers<void>();
    const exchange = new Exchange(manualClock(), silentLog, { state: undefined, release() {} });
    exchange.collector = new ReasoningCollector({ proofs: true, texts: false, maker: "m" }, () => gate.promise);
    exchange.collector.take([...block({ kind: "reasoning" }, "a", "s"), FINISH]);
    let complete = false;
    const done = exchange.complete().then(() => {
      complete = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(complete).toBe(false);
    gate.resolve();
    await done;
    expect(complete).toBe(true);
  });

  test("a model's alias and its dated version are one family, other models are not", () => {
    expect(makerOf("Claude-Sonnet-4-5-20250929")).toBe("claude-sonnet-4-5");
    expect(makerOf("gpt-6-sol-2026-05-01")).toBe("gpt-6-sol");
    expect(makerOf("gemini-flash-latest")).toBe("gemini-flash");
    expect(makerOf("claude-opus-4-5@20251101")).toBe("claude-opus-4-5");
    expect(makerOf("gemini-3-pro")).not.toBe(makerOf("gemini-3-flash"));
  });
});

const prompt = (...turns: Prompt["turns"]): Prompt => ({ system: [], turns, tools: [], stop: [] });

/** A reply's blocks in any order: calls with ids of their own, texts that are not empty, nothing hidden at the very end. */
const reply = fc
  .array(
    fc.oneof(
      fc.record({ kind: fc.constant("reasoning" as const), text: fc.string(), signature: fc.string({ minLength: 1 }) }),
      fc.record({ kind: fc.constant("redacted-reasoning" as const), data: fc.string() }),
      fc.record({ kind: fc.constant("text" as const), said: fc.string({ minLength: 1 }) }),
      fc.record({ kind: fc.constant("tool-call" as const), signature: fc.option(fc.string({ minLength: 1 })) }),
    ),
    { minLength: 1, maxLength: 8 },
  )
  .map((blocks) => {
    const memory: MemoryBlock[] = [];
    const parts: Part[] = [];
    for (const [at, one] of blocks.entries()) {
      if (one.kind === "reasoning") {
        memory.push(one);
        parts.push({ type: "reasoning", text: one.text, signature: one.signature });
      } else if (one.kind === "redacted-reasoning") {
        memory.push(one);
        parts.push({ type: "redacted-reasoning", data: one.data });
      } else if (one.kind === "text") {
        memory.push({ kind: "text", length: one.said.length });
        parts.push({ type: "text", text: one.said });
      } else {
        const proof = one.signature === null ? {} : { signature: one.signature };
        memory.push({ kind: "tool-call", id: `c${at}`, ...proof });
        parts.push({ type: "tool-call", id: `c${at}`, name: "f", arguments: "{}", ...proof });
      }
    }
    parts.push({ type: "tool-call", id: "last", name: "f", arguments: "{}" });
    memory.push({ kind: "tool-call", id: "last" });
    return { memory, parts };
  });

const isHidden = (part: Part) => part.type === "reasoning" || part.type === "redacted-reasoning";

function withoutProof(part: Part): Part {
  if (part.type !== "tool-call") return part;
  const { signature: _signature, ...rest } = part;
  return rest;
}

describe("putting back", () => {
  test("restores any reply of which a client kept texts and calls", () => {
    fc.assert(
      fc.property(reply, ({ memory, parts }) => {
        const kept = parts.filter((part) => !isHidden(part)).map(withoutProof);
        const asked = prompt({ role: "user", parts: [] }, { role: "assistant", parts: kept });
        restorePrompt(asked, new Map([[0, memory]]));
        expect(asked.turns[1]?.parts).toEqual(parts);
      }),
    );
  });

  test("restores it where the client made one text of all before its calls, as chat clients do", () => {
    fc.assert(
      fc.property(reply, ({ memory, parts }) => {
        const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
        const calls = parts.filter((part) => part.type === "tool-call").map(withoutProof);
        const asked = prompt({
          role: "assistant",
          parts: [...(text === "" ? [] : [{ type: "text", text } as const]), ...calls],
        });
        restorePrompt(asked, new Map([[0, memory]]));
        expect(asked.turns[0]?.parts).toEqual(parts);
      }),
    );
  });

  test("a memory of other calls changes nothing", () => {
    const parts: Part[] = [{ type: "tool-call", id: "mine", name: "f", arguments: "{}" }];
    const asked = prompt({ role: "assistant", parts });
    restorePrompt(asked, new Map([[0, MEMORY]]));
    expect(asked.turns[0]?.parts).toEqual(parts);
  });

  test("reasoning behind all that was kept is left out", () => {
    const memory: ReasoningMemory = [
      { kind: "text", length: 2 },
      { kind: "reasoning", text: "late", signature: "s" },
    ];
    const asked = prompt({ role: "assistant", parts: [{ type: "text", text: "Hi" }] });
    restorePrompt(asked, new Map([[0, memory]]));
    expect(asked.turns[0]?.parts).toEqual([{ type: "text", text: "Hi" }]);
  });

  test("on the diagonal each dialect writes its own wire, and turns without a memory stay the same objects", () => {
    const other = { role: "assistant", content: "untouched" };
    const chat = {
      messages: [other, { role: "user" }, { role: "assistant", content: null, tool_calls: [{ id: "call_1" }] }],
    };
    const chatEdits = dialects.chat.replay.restore(chat, new Map([[1, MEMORY]]), "reasoning");
    const [same, , restored] = chatEdits["messages"] as Wire[];
    expect(same).toBe(other);
    expect(restored).toEqual({ role: "assistant", content: null, tool_calls: [{ id: "call_1" }], reasoning: "Hm." });

    const use = { type: "tool_use", id: "call_1", name: "f", input: {} };
    const messages = {
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", content: [use] },
      ],
    };
    const edits = dialects.messages.replay.restore(messages, new Map([[0, MEMORY]]), undefined);
    expect((edits["messages"] as Wire[])[1]).toEqual({
      role: "assistant",
      content: [{ type: "thinking", thinking: "Hm.", signature: "sig" }, use],
    });

    const call = { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" };
    const signature = packReasoning({ id: "rs_1", encrypted: "gAAA" });
    const memory: ReasoningMemory = [
      { kind: "reasoning", text: "Hm.", signature },
      { kind: "tool-call", id: "call_1" },
    ];
    const input = { input: [{ role: "user", content: "x" }, { type: "web_search_call", id: "ws" }, call] };
    expect(dialects.responses.replay.restore(input, new Map([[0, memory]]), undefined)["input"]).toEqual([
      input.input[0],
      input.input[1],
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: "gAAA" },
      call,
    ]);
  });

  /** Anything that may stand in a conversation, in each dialect's words. */
  const SPOKEN: Record<DialectName, readonly Wire[]> = {
    responses: [
      { role: "user", content: "u" },
      { role: "system", content: "s" },
      { role: "developer", content: "" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "r" },
      { type: "reasoning", summary: [] },
      { type: "reasoning", summary: [], encrypted_content: "gAAA" },
      { type: "item_reference", id: "x" },
    ],
    chat: [
      { role: "user", content: "u" },
      { role: "system", content: "s" },
      { role: "assistant", content: "a" },
      { role: "assistant", content: "", reasoning_content: "hm" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "" } }],
      },
      { role: "tool", tool_call_id: "c", content: "r" },
    ],
    messages: [
      { role: "user", content: "u" },
      { role: "system", content: "s" },
      { role: "assistant", content: "a" },
      { role: "assistant", content: [] },
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "r" }] },
    ],
  };

  test.each(["chat", "messages", "responses"] as const)(
    "a %s client's turns count as its decoder counts them",
    (name) => {
      const { replay, decodeRequest } = dialects[name];
      fc.assert(
        fc.property(fc.array(fc.constantFrom(...SPOKEN[name]), { maxLength: 12 }), (said) => {
          const body = { model: "m", max_tokens: 1, [name === "responses" ? "input" : "messages"]: said };
          const assistants = decodeRequest(body).prompt.turns.filter((turn) => turn.role === "assistant");
          expect(replay.read(body, true).turns.map(({ callIds }) => callIds.length)).toEqual(
            assistants.map((turn) => turn.parts.filter((part) => part.type === "tool-call").length),
          );
        }),
      );
    },
  );
});

test("a failed settle still fails the answer, whatever became of its reasoning", async () => {
  const exchange = new Exchange(manualClock(), silentLog, { state: undefined, release() {} });
  exchange.collector = new ReasoningCollector({ proofs: true, texts: false, maker: "m" }, () => Promise.resolve());
  exchange.collector.take([...block({ kind: "reasoning" }, "a", "s"), FINISH]);
  const error = new GatewayError("internal_error", "the book is closed");
  exchange.hold = { settle: () => Promise.reject(error), release: () => Promise.resolve() } as never;
  expect(await exchange.complete().catch((thrown: unknown) => thrown)).toBe(error);
});
