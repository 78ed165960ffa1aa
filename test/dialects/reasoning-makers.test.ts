import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import {
  carriedIn,
  carryRedacted,
  carrySignature,
  carryUnsigned,
  isPacked,
  isUnsigned,
  makerOf,
  markUnsigned,
} from "../../src/dialects/reasoning/proof.ts";
import { eventWriter } from "../../src/dialects/translate.ts";
import { contextOf, readBack, recordsOf, send, type Wire } from "./crossing.ts";

const OPUS = "claude-opus-4-5-20251101";
const SONNET = "claude-sonnet-4-5-20250929";
const CLIENTS = ["messages", "responses"] as const;
type Name = (typeof CLIENTS)[number];

const THOUGHT: Event[] = [
  { type: "start", id: "m", model: "ignored" },
  { type: "block-start", block: { kind: "reasoning" } },
  { type: "block-delta", text: "Hm." },
  { type: "block-signature", signature: "ErUBsigned" },
  { type: "block-end" },
  { type: "block-start", block: { kind: "redacted-reasoning", data: "EvSealed" } },
  { type: "block-end" },
  { type: "block-start", block: { kind: "text" } },
  { type: "block-delta", text: "Yes." },
  { type: "block-end" },
  { type: "finish", finish: { reason: "stop" } },
];

/** A reply of this model as its client gets it, from a vendor of another dialect. */
const whole = (client: Name, events: readonly Event[], upstreamModel?: string): Wire =>
  dialects[client].encodeReply(events, { ...contextOf(), ...(upstreamModel && { upstreamModel }) });

const streamed = (client: Name, events: readonly Event[], upstreamModel: string): string => {
  const writer = eventWriter(dialects[client], { ...contextOf(), upstreamModel });
  const text = events.map((event) => writer.push({} as never, [event])).join("");
  return text + writer.end([]);
};

const itemsOf = (reply: Wire): Wire[] => reply["output"] as Wire[];
const again = { role: "user", content: "go on" };

const asked = (input: Wire[], upstreamModel: string): string =>
  send({ from: "responses", to: "messages", orders: { upstreamModel } }, { input: [...input, again] }).text;

describe("Claude's proof in the hands of a responses client (dialects.md 2.9, 4.8 #6)", () => {
  test.each([
    ["whole", itemsOf(whole("responses", THOUGHT, OPUS))],
    ["stream", itemsOf(recordsOf(streamed("responses", THOUGHT, OPUS)).at(-1)?.["response"] as Wire)],
  ])("%s: goes back to its own model, whatever its name there, and to no other", (_mode, items) => {
    for (const own of [
      OPUS,
      "claude-opus-4-5",
      "us.anthropic.claude-opus-4-5-20251101-v1:0",
      "claude-opus-4-5@20251101",
    ]) {
      expect(asked(items, own)).toContain("ErUBsigned");
      expect(asked(items, own)).toContain("EvSealed");
    }
    const other = asked(items, SONNET);
    expect(other).not.toContain("ErUBsigned");
    expect(other).not.toContain("EvSealed");
    expect(other).not.toContain("Hm.");
    expect(other).toContain("Yes.");
  });

  test("as it was packed before, it is read still", () => {
    const item = (encrypted: string) => ({ type: "reasoning", summary: [], encrypted_content: encrypted });
    const items = [
      item("sluice-signature:ErUBold:er"),
      item("sluice-redacted:EvOld"),
      { role: "assistant", content: "Yes." },
    ];
    expect(asked(items, SONNET)).toContain("ErUBold:er");
    expect(asked(items, SONNET)).toContain("EvOld");
  });

  test("any maker and any proof are read back as they were", () => {
    const text = fc.string({ unit: "binary" });
    fc.assert(
      fc.property(text, fc.option(text, { nil: undefined }), (proof, name) => {
        const maker = name === undefined ? undefined : makerOf(name);
        for (const [kind, carry] of [
          ["signature", carrySignature],
          ["redacted", carryRedacted],
        ] as const) {
          const carried = carriedIn(carry(proof, maker));
          expect(carried?.kind).toBe(kind);
          expect(carried?.text).toBe(proof);
          expect(carried?.maker ?? "").toBe(maker ?? "");
        }
      }),
    );
  });

  test("a vendor's own encrypted content is nobody's carriage", () => {
    for (const own of ["gAAAAABo", "sluice-signature", "sluice-other:x", ""]) expect(carriedIn(own)).toBeUndefined();
  });
});

test("a model is one family under all the names of its vendors, and no other one", () => {
  const opus = [
    "claude-opus-4-5",
    "Claude-Opus-4-5-20251101",
    "claude-opus-4-5@20251101",
    "eu.anthropic.claude-opus-4-5-20251101-v1:0",
    "anthropic/claude-opus-4.5",
    "claude-opus-4-5-latest",
  ];
  expect(new Set(opus.map(makerOf))).toEqual(new Set(["claude-opus-4-5"]));
  expect(makerOf("claude-opus-4-20250514")).toBe(makerOf("claude-opus-4-0"));
  const others = ["claude-opus-4-1", "claude-sonnet-4-5", "claude-opus-4", "claude-3-5-sonnet-20241022", "MiniMax-M2"];
  expect(new Set([...others, "claude-opus-4-5"].map(makerOf)).size).toBe(6);
});

describe("Claude's proof in the hands of a messages client, which names no model", () => {
  const conversation = {
    messages: [
      { role: "user", content: "q" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", signature: "ErUBsigned" },
          { type: "redacted_thinking", data: "EvSealed" },
          { type: "thinking", thinking: "Own.", signature: "ErUBown" },
          { type: "text", text: "Yes." },
        ],
      },
      again,
    ],
  };
  const foreign = new Set(["ErUBsigned", "EvSealed"]);
  const sent = (isForeignProof?: (proof: string) => boolean) =>
    send(
      {
        from: "messages",
        to: "messages",
        orders: { upstreamModel: SONNET, ...(isForeignProof && { isForeignProof }) },
      },
      conversation,
    ).body["messages"] as Wire[];

  test("is left out where it is known to be another model's, and that alone", () => {
    expect(sent((proof) => foreign.has(proof))[1]?.["content"]).toEqual([
      { type: "thinking", thinking: "Own.", signature: "ErUBown" },
      { type: "text", text: "Yes." },
    ]);
  });

  test("is left alone where nobody knows whose it is", () => {
    expect(sent()).toEqual(conversation.messages);
    expect(sent(() => false)).toEqual(conversation.messages);
  });
});

const unsigned = THOUGHT.filter(
  (event) => event.type !== "block-signature" && !("block" in event && event.block.kind === "redacted-reasoning"),
);

describe("reasoning without a proof, for messages clients (dialects.md 4.8 #6)", () => {
  const signed = (block: Wire | undefined) => String(block?.["signature"]);

  test("is marked with who made it, whole and streamed", () => {
    const [block] = whole("messages", unsigned, "deepseek-chat")["content"] as Wire[];
    expect(block).toMatchObject({ type: "thinking", thinking: "Hm." });
    expect(isPacked(signed(block))).toBe(true);
    expect(signed(block)).toContain("deepseek-chat");
    const events = readBack("messages", streamed("messages", unsigned, "deepseek-chat"));
    expect(events).toContainEqual({ type: "block-signature", signature: signed(block) });
  });

  test("a vendor's own proof stays as it is", () => {
    expect((whole("messages", THOUGHT, OPUS)["content"] as Wire[])[0]?.["signature"]).toBe("ErUBsigned");
    expect(streamed("messages", THOUGHT, OPUS)).not.toContain("unsigned:");
  });

  test("comes back as text where the vendor takes it, and never to Claude", () => {
    const content = whole("messages", unsigned, "deepseek-chat")["content"] as Wire[];
    const messages = [{ role: "user", content: "q" }, { role: "assistant", content }, again];
    const chat = send({ from: "messages", to: "chat", quirks: { reasoningReplay: "reasoning_content" } }, { messages });
    expect((chat.body["messages"] as Wire[])[1]).toEqual({
      role: "assistant",
      content: "Yes.",
      reasoning_content: "Hm.",
    });
    const { prompt } = dialects.messages.decodeRequest({ messages });
    expect(prompt.turns[1]?.parts[0]).toEqual({ type: "reasoning", text: "Hm.", maker: "deepseek-chat" });
    for (const to of ["messages", "responses", "gemini"] as const) {
      const { text } = send({ from: "messages", to }, { messages });
      expect(text).toContain("Yes.");
      expect(text).not.toContain("Hm.");
      expect(text).not.toContain("deepseek");
    }
  });

  test("is no proof to the memory of earlier reasoning", () => {
    const turn = (signature: string) =>
      dialects.messages.replay.read(
        { messages: [{ role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature }] }] },
        false,
      ).turns[0]?.carries;
    expect(turn(markUnsigned("deepseek-chat", "reply_0"))).toBe("text");
    expect(turn("ErUBsigned")).toBe("proof");
    expect(isUnsigned("ErUBsigned")).toBe(false);
  });
});

describe("reasoning without a proof, for responses clients (dialects.md 4.8 #6)", () => {
  const modes: [string, Wire[]][] = [
    ["whole", itemsOf(whole("responses", unsigned, "deepseek-chat"))],
    ["stream", itemsOf(recordsOf(streamed("responses", unsigned, "deepseek-chat")).at(-1)?.["response"] as Wire)],
  ];

  test.each(modes)("%s: is marked with who made it, so that SDKs which store nothing send it back", (_mode, [item]) => {
    expect(item).toMatchObject({ type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] });
    expect(carriedIn(String(item?.["encrypted_content"]))).toEqual({
      kind: "unsigned",
      text: "rs_Reply1_0",
      maker: "deepseek-chat",
    });
  });

  test("of its own dialect's vendor stays as it is, also where its reply is written anew", () => {
    expect(JSON.stringify(whole("responses", unsigned))).not.toContain("encrypted_content");
  });

  test.each(modes)("%s: comes back as text where the vendor takes it, and nowhere else", (_mode, items) => {
    const input = [{ role: "user", content: "q" }, ...items, again];
    const chat = send({ from: "responses", to: "chat", quirks: { reasoningReplay: "reasoning_content" } }, { input });
    expect((chat.body["messages"] as Wire[])[1]).toEqual({
      role: "assistant",
      content: "Yes.",
      reasoning_content: "Hm.",
    });
    const { prompt } = dialects.responses.decodeRequest({ input });
    expect(prompt.turns[1]?.parts[0]).toEqual({ type: "reasoning", text: "Hm.", maker: "deepseek-chat" });
    for (const to of ["messages", "responses", "gemini"] as const) {
      const { text } = send({ from: "responses", to }, { input });
      expect(text).toContain("Yes.");
      expect(text).not.toContain("Hm.");
      expect(text).not.toContain("deepseek");
    }
  });

  test("is no proof to the memory of earlier reasoning", () => {
    const turn = (encrypted: string) => {
      const summary = [{ type: "summary_text", text: "Hm." }];
      const input = [{ type: "reasoning", id: "rs_1", summary, encrypted_content: encrypted }];
      return dialects.responses.replay.read({ input }, false).turns[0]?.carries;
    };
    expect(turn(carryUnsigned("deepseek-chat", "rs_reply_0"))).toBe("text");
    expect(turn("gAAAAown")).toBe("proof");
  });
});

describe("the proof of a Gemini text, which comes when its thoughts are told (dialects.md 3.3)", () => {
  const parts = [
    [{ text: "Hm.", thought: true }],
    [{ text: "Yes" }],
    [{ text: "." }],
    [{ text: "", thoughtSignature: "Sig+/=" }],
  ];
  const events = (() => {
    const decoder = upstreamDialects.gemini.decoder({ quirks: {} });
    const read = (value: Wire) => decoder.push({ data: "x", value } as never);
    const records = parts.map((one) => ({ candidates: [{ content: { parts: one } }] }));
    return [...records.flatMap(read), ...read({ candidates: [{ finishReason: "STOP" }] }), ...decoder.end()];
  })();

  test.each([
    ["whole", itemsOf(whole("responses", events, "gemini-3-pro"))],
    ["stream", itemsOf(recordsOf(streamed("responses", events, "gemini-3-pro")).at(-1)?.["response"] as Wire)],
  ])("%s: a responses client carries it back to where it was", (_mode, items) => {
    expect(items.map((item) => item["type"])).toEqual(["reasoning", "message", "reasoning"]);
    expect(new Set(items.map((item) => item["id"])).size).toBe(3);
    expect(items[2]).toMatchObject({ summary: [] });
    expect(String(items[2]?.["encrypted_content"])).toContain("Sig+/=");
    const back = send(
      { from: "responses", to: "gemini", orders: { upstreamModel: "gemini-3-pro" } },
      { input: [...items, again] },
    );
    const model = (back.body["contents"] as Wire[]).find(({ role }) => role === "model");
    expect(model?.["parts"]).toEqual([{ text: "Yes." }, { text: "", thoughtSignature: "Sig+/=" }]);
    const other = send({ from: "responses", to: "responses" }, { input: [...items, again] });
    expect(other.text).not.toContain("Sig+/=");
  });

  test("every record of the stream tells of the item it belongs to", () => {
    const records = recordsOf(streamed("responses", events, "gemini-3-pro"));
    const done = records.filter(({ type }) => type === "response.output_item.done");
    const added = records.filter(({ type }) => type === "response.output_item.added");
    expect(done.map((record) => record["output_index"])).toEqual([0, 1, 2]);
    expect(added.map((record) => (record["item"] as Wire)["id"])).toEqual(
      done.map((record) => (record["item"] as Wire)["id"]),
    );
    expect(records.map((record) => record["sequence_number"])).toEqual(records.map((_record, at) => at));
  });
});
