import { describe, expect, test } from "bun:test";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { registry } from "../../src/vendors/registry.ts";
import { faultOf } from "../support/fault.ts";
import { reply, send, stream } from "./crossing.ts";

const quirksOf = (id: string): Quirks => registry.find((row) => row.id === id)?.quirks ?? {};
const toVendor = (id: string) => ({ from: "chat", to: "chat", quirks: quirksOf(id) }) as const;
const user = { role: "user", content: "Hi" };

describe("a chat vendor that refuses what it does not know (dialects.md 1.1)", () => {
  const asked = {
    messages: [user],
    user: "u",
    store: true,
    verbosity: "low",
    prompt_cache_key: "k",
    metadata: { a: "b" },
  };

  test("is not told the fields of another vendor, and each is named", () => {
    const { body, dropped } = send(toVendor("mistral"), asked);
    expect(Object.keys(body).sort()).toEqual(["messages", "metadata", "model", "prompt_cache_key"]);
    expect(dropped.toSorted()).toEqual(["store", "user", "verbosity"]);
  });

  test("Mistral is told how to choose among tokens, and to tell of them, as its own SDK can (mistralai 3.7)", () => {
    const sampling = { top_k: 4, repetition_penalty: 1.1, logprobs: true, top_logprobs: 2 };
    const { body, dropped } = send(toVendor("mistral"), {
      messages: [user],
      ...sampling,
      min_p: 0.1,
      logit_bias: { 1: 2 },
    });
    expect([body, dropped.toSorted()]).toEqual([
      { model: "up-1", messages: [user], ...sampling },
      ["logit_bias", "min_p"],
    ]);
    const across = send({ ...toVendor("mistral"), from: "messages" }, { max_tokens: 9, messages: [user], top_k: 4 });
    expect([across.body["top_k"], across.dropped]).toEqual([4, []]);
  });

  test("Groq and Cerebras are not told what only other servers of the dialect know, and each is told what it knows itself", () => {
    const others = { top_k: 4, min_p: 0.1, repetition_penalty: 1.1, modalities: ["text"] };
    const both = { messages: [user], ...others, service_tier: "flex", prompt_cache_key: "k" };
    const toGroq = send(toVendor("groq"), both);
    expect([toGroq.body, toGroq.dropped.toSorted()]).toEqual([
      { model: "up-1", messages: [user], service_tier: "flex" },
      ["min_p", "prompt_cache_key", "repetition_penalty", "top_k"],
    ]);
    const toCerebras = send(toVendor("cerebras"), { ...both, prediction: { type: "content", content: "x" } });
    expect(Object.keys(toCerebras.body).sort()).toEqual([
      ...["messages", "model", "prediction", "prompt_cache_key", "service_tier"],
    ]);
  });

  test("Fireworks is asked for its better service", () => {
    const { body, dropped } = send(toVendor("fireworks"), { messages: [user], service_tier: "priority", store: true });
    expect([body, dropped]).toEqual([{ model: "up-1", messages: [user], service_tier: "priority" }, ["store"]]);
  });

  test("is not told the older names of tools where a typed client writes null there; one of which nothing is known is told what it says", () => {
    const nulls = { functions: null, function_call: null };
    const custom = { type: "custom", custom: { name: "f" } };
    const { body, dropped } = send(toVendor("mistral"), { messages: [user], ...nulls });
    expect([body, dropped]).toEqual([{ model: "up-1", messages: [user] }, []]);
    for (const none of [nulls, { functions: [], function_call: null }]) {
      const beside = send(toVendor("mistral"), { messages: [user], tools: [custom], ...none });
      expect(Object.keys(beside.body).sort()).toEqual(["messages", "model", "tools"]);
    }
    expect(send({ from: "chat", to: "chat", quirks: {} }, { messages: [user], ...nulls }).body).toMatchObject(nulls);
  });

  test.each(["mistral", "groq", "fireworks", "cerebras"])(
    "%s is not told what OpenRouter's clients tell every server",
    (id) => {
      const told = { session_id: "s", transforms: ["middle-out"], provider: { sort: "price" }, route: "fallback" };
      const more = { models: ["a/b"], plugins: [{ id: "web" }], trace: { trace_id: "t" }, top_a: 0.1 };
      const routed = { ...told, ...more, cache_control: { type: "ephemeral" } };
      const { body, dropped } = send(toVendor(id), { messages: [user], ...routed });
      expect(body).toEqual({ model: "up-1", messages: [user] });
      expect(dropped.toSorted()).toEqual(Object.keys(routed).sort());
      expect(send(toVendor("openrouter"), { messages: [user], ...routed }).body).toMatchObject(routed);
    },
  );

  test("the wish for reasoning is left with those that know it by that name", () => {
    const asked = { messages: [user], include_reasoning: true };
    for (const id of ["mistral", "fireworks", "cerebras"]) {
      expect(send(toVendor(id), asked)).toMatchObject({ body: { model: "up-1", messages: [user] }, dropped: [] });
    }
    for (const id of ["groq", "openrouter"]) expect(send(toVendor(id), asked).body["include_reasoning"]).toBe(true);
  });

  test("the key of a prompt's cache goes to the vendors that know it, from clients of both dialects that have it", () => {
    const given = { prompt_cache_key: "k", service_tier: "flex", metadata: { a: "b" } };
    for (const id of ["mistral", "moonshotai", "cerebras", "fireworks"]) {
      const { body, dropped } = send(
        { from: "responses", to: "chat", quirks: quirksOf(id) },
        { input: "Hi", ...given },
      );
      expect([id, body["prompt_cache_key"], dropped.toSorted()]).toEqual([id, "k", ["metadata", "service_tier"]]);
      expect(send(toVendor(id), { messages: [user], ...given }).body["prompt_cache_key"]).toBe("k");
    }
    for (const id of ["groq", "zai", "ollama"]) {
      const { body, dropped } = send(
        { from: "responses", to: "chat", quirks: quirksOf(id) },
        { input: "Hi", ...given },
      );
      expect(body).not.toContainKey("prompt_cache_key");
      expect(dropped.toSorted()).toEqual(["metadata", "service_tier"]);
    }
  });

  test("Groq is not told a message's name; that of a result says nothing which its call has not said", () => {
    const call = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      { ...user, name: "ann" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, name: "f", content: "x" },
    ];
    const { body, dropped } = send(toVendor("groq"), { messages });
    expect([body["messages"], dropped]).toEqual([
      [user, messages[1], { role: "tool", tool_call_id: call.id, content: "x" }],
      ["messages[0].name"],
    ]);
    expect(send(toVendor("cerebras"), { messages }).body["messages"]).toEqual(messages);
  });

  test("a field that asks for nothing is no loss, and a vendor of one's own gets every field", () => {
    expect(send(toVendor("qwen"), { messages: [user], store: false }).dropped).toEqual([]);
    const own = send({ from: "chat", to: "chat" }, asked);
    expect([own.body, own.dropped]).toEqual([{ ...asked, model: "up-1" }, []]);
  });

  test("what says nothing is no loss wherever it goes", () => {
    const silent = { frequency_penalty: 0, presence_penalty: 0, top_logprobs: 0, logit_bias: {}, service_tier: "auto" };
    for (const id of ["mistral", "groq", "xai", "openrouter"]) {
      expect(send(toVendor(id), { messages: [user], ...silent }).dropped).toEqual([]);
    }
    for (const to of ["messages", "responses", "gemini"] as const) {
      expect(send({ from: "chat", to }, { messages: [user], ...silent }).dropped).toEqual([]);
    }
    const refusing = { ...toVendor("xai"), orders: { remove: ["frequency_penalty", "presence_penalty"] } };
    expect(send(refusing, { messages: [user], ...silent, presence_penalty: 0.1 }).dropped).toEqual([
      "presence_penalty",
    ]);
  });

  test("an end user's name of another dialect is named as lost too", () => {
    const way = { from: "messages", to: "chat", quirks: quirksOf("mistral") } as const;
    const { body, dropped } = send(way, { messages: [user], metadata: { user_id: "u" } });
    expect(body).not.toContainKey("user");
    expect(dropped).toEqual(["metadata.user_id"]);
  });

  const checking = ["mistral", "groq", "cerebras", "fireworks"];
  test.each(checking)("%s is not sent what SDKs add to a reply that they send back", (id) => {
    const added = { refusal: null, annotations: [], audio: null, function_call: null, parsed: null };
    const called = { name: "f", arguments: "{}" };
    const call = { id: "abcdefghi", type: "function", function: called };
    const messages = [
      { ...user, name: null, tool_calls: null },
      {
        role: "assistant",
        content: null,
        ...added,
        tool_calls: [{ ...call, index: 0, function: { ...called, parsed_arguments: null } }],
      },
      { role: "tool", tool_call_id: call.id, content: "x" },
      { role: "assistant", content: null, ...added, refusal: "No." },
      { role: "user", content: [{ type: "text", text: "a", cache_control: { type: "ephemeral" } }] },
      { role: "assistant", content: "b", ...added, tool_calls: null, annotations: [{ type: "url_citation" }] },
      user,
    ];
    const { body, dropped } = send(toVendor(id), { messages });
    expect([body["messages"], dropped]).toEqual([
      [
        user,
        { role: "assistant", content: null, tool_calls: [call] },
        messages[2],
        { role: "assistant", content: "No." },
        { role: "user", content: quirksOf(id).joinedContent ? "a" : [{ type: "text", text: "a" }] },
        { role: "assistant", content: "b" },
        user,
      ],
      [],
    ]);
  });

  test.each(checking)(
    "%s is not sent what OpenAI's Agents SDK for JavaScript writes into the text of a reply",
    (id) => {
      const call = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
      const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
      const text = { type: "text", text: "I look." };
      const ofReply = {
        role: "assistant",
        refusal: null,
        annotations: [],
        reasoning_content: "hm",
        tool_calls: [call],
      };
      const messages = [
        { role: "user", content: [image, { ...text, id: "t1", label: "" }] },
        { role: "assistant", content: [{ ...text, ...ofReply }], tool_calls: [call] },
        { role: "tool", tool_call_id: call.id, content: "x" },
      ];
      const { body, dropped } = send(toVendor(id), { messages });
      const said = quirksOf(id).joinedContent ? text.text : [text];
      expect([body["messages"], dropped]).toEqual([
        [
          { role: "user", content: [image, text] },
          { role: "assistant", content: said, tool_calls: [call] },
          messages[2],
        ],
        ["messages[0].content[1].id"],
      ]);
    },
  );

  const refused = { role: "assistant", content: null, refusal: "No." };
  test.each(["deepseek", "xai", "moonshotai", "openrouter", "vllm", "ollama", "lmstudio"])(
    "%s is told an answer that was nothing but OpenAI's refusal as its text",
    (id) => {
      const { body, dropped } = send(toVendor(id), { messages: [user, refused, user] });
      const thought = quirksOf(id).reasoningReplayAlways ? { reasoning_content: "" } : {};
      expect(body["messages"]).toEqual([user, { role: "assistant", content: "No.", ...thought }, user]);
      expect(dropped).toEqual([]);
    },
  );

  test("who has OpenAI's models, or is not described, is told such an answer as it is", () => {
    for (const way of [toVendor("azure"), { from: "chat", to: "chat", quirks: {} } as const]) {
      expect(send(way, { messages: [user, refused, user] }).body["messages"]).toEqual([user, refused, user]);
    }
  });

  test.each(["openai", "azure", "mistral", "fireworks"])(
    "%s is not sent marks for a cache, nor images that another one drew",
    (id) => {
      const cache_control = { type: "ephemeral" };
      const part = { type: "text", text: "a" };
      const called = { name: "f", parameters: { type: "object" } };
      const tool = { type: "function", function: called };
      const sent = {
        messages: [
          { ...user, cache_control },
          {
            role: "assistant",
            content: "b",
            images: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }],
          },
          { role: "user", content: [{ ...part, cache_control }, part] },
        ],
        tools: [
          { ...tool, cache_control },
          { ...tool, function: { ...called, name: "g", cache_control } },
          { ...tool, function: { ...called, name: "h" } },
        ],
      };
      const { body, dropped } = send(toVendor(id), sent);
      expect([body["messages"], body["tools"], dropped]).toEqual([
        [user, { role: "assistant", content: "b" }, { role: "user", content: [part, part] }],
        ["f", "g", "h"].map((name) => ({ ...tool, function: { ...called, name } })),
        ["messages[1].images"],
      ]);
      const own = { from: "chat", to: "chat" } as const;
      expect(send(own, sent).body).toMatchObject(sent);
    },
  );

  describe("OpenAI's marks for a cache", () => {
    const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
    const marked = { ...picture, prompt_cache_breakpoint: { mode: "explicit" } };
    const sentTo = (id: string) => send(toVendor(id), { messages: [{ role: "user", content: [marked] }] });

    test.each(["mistral", "groq", "cerebras", "fireworks"])("are not sent to %s", (id) => {
      const { body, dropped } = sentTo(id);
      expect([body["messages"], dropped]).toEqual([[{ role: "user", content: [picture] }], []]);
    });

    test.each(["azure", "openrouter", "deepseek"])("are sent to %s, which reads them or passes over them", (id) => {
      expect(sentTo(id).body["messages"]).toEqual([{ role: "user", content: [marked] }]);
    });
  });

  test.each(
    registry
      .filter(({ dialect, modality }) => dialect === "chat" && !modality)
      .map(({ id }) => id)
      .concat("openai"),
  )("%s is told nothing of no tools", (id) => {
    const none = { tools: [], tool_choice: "auto", parallel_tool_calls: true };
    const { body, dropped } = send(toVendor(id), { messages: [user], ...none });
    expect([body, dropped]).toEqual([{ messages: [user], model: "up-1" }, []]);
  });

  test("names the fields of a message that say something and stand nowhere else", () => {
    const messages = [{ ...user, name: "Ann", metadata: { a: 1 }, tags: [] }];
    const named = send(toVendor("mistral"), { messages });
    expect([named.body["messages"], named.dropped]).toEqual([[user], ["messages[0].name", "messages[0].metadata"]]);
    const taken = send(toVendor("cerebras"), { messages });
    expect([taken.body["messages"], taken.dropped]).toEqual([[{ ...user, name: "Ann" }], ["messages[0].metadata"]]);
    expect(send(toVendor("xai"), { messages }).body["messages"]).toEqual(messages);
    // What was spoken aloud stands in no text of the turn.
    const spoken = { role: "assistant", content: null, audio: { id: "audio_1" } };
    const heard = send(toVendor("mistral"), { messages: [user, spoken, user] });
    expect([heard.text.includes("audio_1"), heard.dropped]).toEqual([false, ["messages[1].audio"]]);
  });

  test("is shown no field of reasoning that a client sends back, nor another vendor's proof on a call", () => {
    const call = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
    const said = { role: "assistant", content: "a", reasoning_content: "r", reasoning: "r", reasoning_details: [] };
    const signed = { ...call, id: "call_long_id_1", extra_content: { google: { thought_signature: "s" } } };
    const messages = [
      user,
      { ...said, tool_calls: [signed] },
      { role: "tool", tool_call_id: signed.id, content: "x" },
      said,
      user,
    ];
    const { text } = send(toVendor("mistral"), { messages });
    for (const word of ["reasoning", "extra_content", "call_long_id_1"]) expect(text).not.toContain(word);
    const replayed = send(toVendor("moonshotai"), { messages }).text;
    expect(replayed).toContain("reasoning_content");
    expect(replayed).not.toContain("extra_content");
    expect(send({ from: "chat", to: "chat" }, { messages }).text).toContain("extra_content");
  });

  test("is shown no empty turn where reasoning or an image was all of one (Mistral: must have either content or tool_calls)", () => {
    const images = [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg" } }];
    const thought = { role: "assistant", content: "", reasoning_content: "r" };
    const messages = [user, thought, user, { role: "assistant", content: null, images }, user];
    for (const id of ["mistral", "xai", "azure"]) {
      const { body, dropped } = send(toVendor(id), { messages });
      expect([id, body["messages"], dropped]).toEqual([
        id,
        [{ ...user, content: "Hi\nHi\nHi" }],
        ["messages[3].images"],
      ]);
    }
    expect(send({ from: "chat", to: "chat" }, { messages }).body["messages"]).toEqual(messages);
  });
});

test.each(["groq", "cerebras", "deepseek", "nvidia"])(
  "%s is told all that is text as strings, the user's words beside a picture in parts",
  (id) => {
    const parts = (...texts: string[]) => texts.map((text) => ({ type: "text", text }));
    const cached = [{ type: "text", text: "a", cache_control: { type: "ephemeral" } }];
    const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
    const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
    const messages = [
      { role: "developer", content: [...cached, ...parts("b")] },
      { role: "user", content: parts("c", "d") },
      { role: "assistant", content: parts("e"), tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: parts("f", "g") },
      { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
      { role: "user", content: [picture, ...parts("h")] },
    ];
    const off = { reasoning: { kind: "off", form: "effort" } } as const;
    const { body, dropped } = send({ ...toVendor(id), orders: off }, { messages });
    const contents = (body["messages"] as { content: unknown }[]).map(({ content }) => content);
    expect([contents, dropped]).toEqual([["a\nb", "c\nd", "e", "f\ng", "No.", [picture, ...parts("h")]], []]);
    const others = [{ role: "system", content: parts("a", "b") }, user];
    expect(send(toVendor("qwen"), { messages: others }).body["messages"]).toEqual(others);
  },
);

test.each([
  ["fireworks", "reasoning_content", "reasoning"],
  ["cerebras", "reasoning", "reasoning_content"],
  ["groq", "reasoning", "reasoning_content"],
])(
  "%s gets its reasoning back as %s, from clients of every dialect, and by whatever name one sends it",
  (id, name, other) => {
    const quirks = quirksOf(id);
    const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
    const result = { role: "tool", tool_call_id: "c1", content: "x" };
    const thought = { role: "assistant", content: null, tool_calls: [call], [name]: "Hm." };
    const own = send({ from: "chat", to: "chat", quirks }, { messages: [user, thought, result] });
    const { [name]: _name, ...unnamed } = thought;
    const renamed = send(
      { from: "chat", to: "chat", quirks },
      { messages: [user, { ...unnamed, [other]: "Hm." }, result] },
    );
    const turns = [
      user,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", signature: "unsigned:up-1" },
          { type: "tool_use", id: "c1", name: "f", input: {} },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "x" }] },
    ];
    const across = send({ from: "messages", to: "chat", quirks }, { messages: turns });
    for (const { body, dropped } of [own, renamed, across]) {
      expect([body["messages"], dropped]).toEqual([[user, thought, result], []]);
    }
  },
);

describe("a forced tool at model servers of this machine", () => {
  const tools = ["f", "g"].map((name) => ({ type: "function", function: { name, parameters: { type: "object" } } }));
  const named = { type: "function", function: { name: "g" } };
  const choose = (id: string, tool_choice: unknown) =>
    send(toVendor(id), { messages: [user], tools, tool_choice }).body;

  test("llama.cpp and LM Studio know words and no names: the tool that is forced by its name is told alone", () => {
    for (const id of ["llamacpp", "lmstudio"]) {
      expect(choose(id, named)).toMatchObject({ tools: [tools[1]!], tool_choice: "required" });
      for (const word of ["auto", "none", "required"])
        expect(choose(id, word)).toMatchObject({ tools, tool_choice: word });
    }
    expect(choose("vllm", named)).toMatchObject({ tools, tool_choice: named });
  });

  test("llama.cpp, from the other dialects", () => {
    const input_schema = { type: "object" };
    const functions = ["f", "g"].map((name) => ({ name, input_schema }));
    const tool_choice = { type: "tool", name: "g" };
    const way = { from: "messages", to: "chat", quirks: quirksOf("llamacpp") } as const;
    const { body } = send(way, { messages: [user], tools: functions, tool_choice });
    expect(body["tools"]).toMatchObject([{ function: { name: "g" } }]);
    expect(body["tool_choice"]).toBe("required");
  });

  test("Ollama reads no choice: it is said in words, and where none is to be called none is told", () => {
    const forced = choose("ollama", named);
    expect(forced).toMatchObject({ tools, tool_choice: "auto" });
    expect(forced["messages"]).toEqual([{ role: "system", content: "Answer this time by calling the tool g." }, user]);
    expect(choose("ollama", "auto")).toMatchObject({ messages: [user], tools });
    const none = choose("ollama", "none");
    expect([none["tools"], none["tool_choice"]]).toEqual([undefined, undefined]);
  });
});

test("LM Studio is told the properties of each tool, be there none; others what the client says", () => {
  const tools = [{}, { type: "object" }, { type: "object", properties: { a: {} } }, undefined].map((parameters) => ({
    type: "function",
    function: { name: "f", ...(parameters && { parameters }) },
  }));
  const none = { type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } };
  expect(send(toVendor("lmstudio"), { messages: [user], tools }).body["tools"]).toEqual([
    ...[none, none],
    ...[tools[2], none],
  ]);
  expect(send(toVendor("vllm"), { messages: [user], tools }).body["tools"]).toEqual(tools);
});

describe("a last turn of the assistant's, which the model is to continue", () => {
  const started = { role: "assistant", content: "{" };
  const begin = (id: string) =>
    send({ from: "messages", to: "chat", quirks: quirksOf(id) }, { messages: [user, started] });

  test.each([
    ["moonshotai", { partial: true }],
    ["mistral", { prefix: true }],
  ])("%s is told so on it", (id, mark) => {
    const { body, dropped } = begin(id);
    expect([(body["messages"] as unknown[]).at(-1), dropped]).toEqual([{ ...started, ...mark }, []]);
    expect((send(toVendor(id), { messages: [user, started] }).body["messages"] as unknown[]).at(-1)).toEqual({
      ...started,
      ...mark,
    });
  });

  test.each(["qwen", "deepseek"])("%s goes on with it elsewhere or seldom: that is named", (id) => {
    const { body, dropped } = begin(id);
    expect([(body["messages"] as unknown[]).at(-1), dropped]).toEqual([expect.objectContaining(started), ["prefill"]]);
    // A client of its own dialect may know how it is told.
    const marked = { ...started, partial: true, reasoning_content: "" };
    const own = send(toVendor(id), { messages: [user, marked] });
    expect([(own.body["messages"] as unknown[]).at(-1), own.dropped]).toEqual([marked, []]);
  });
});

test("Ollama, which forgets whose a result in parts is, gets its text as one string; what is more than text stays in parts", () => {
  const parts = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
  const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
  const asked = { role: "user", content: [parts[0], image] };
  const called = { role: "assistant", content: "", tool_calls: [call] };
  const result = { role: "tool", tool_call_id: "c1", content: parts };
  const { body, dropped } = send(toVendor("ollama"), { messages: [asked, called, result] });
  const [, , told] = body["messages"] as Record<string, unknown>[];
  expect(told).toEqual({ ...result, content: "a\nb" });
  expect(body["messages"]).toMatchObject([asked, called, {}]);
  expect(dropped).toEqual([]);
});

/** Templates of open models show a model what it thought since the user last spoke (dialects.md 4.2). */
test.each([
  ["qwen", "reasoning_content"],
  ["llamacpp", "reasoning_content"],
  ["vllm", "reasoning"],
  ["ollama", "reasoning"],
])("%s gets what its model thought in a tool loop back as %s, from clients of the other dialects", (id, name) => {
  const quirks = quirksOf(id);
  const signature = "unsigned:up-1";
  const content = [
    { type: "thinking", thinking: "Hm.", signature },
    { type: "tool_use", id: "c1", name: "f", input: {} },
  ];
  const results = [{ type: "tool_result", tool_use_id: "c1", content: "x" }];
  const messages = [user, { role: "assistant", content }, { role: "user", content: results }];
  const summary = [{ type: "summary_text", text: "Hm." }];
  const input = [
    user,
    { type: "reasoning", summary, encrypted_content: "sluice-unsigned@up-1:" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "x" },
  ];
  for (const { body, dropped } of [
    send({ from: "messages", to: "chat", quirks }, { messages }),
    send({ from: "responses", to: "chat", quirks }, { input }),
  ]) {
    expect((body["messages"] as Record<string, unknown>[])[1]).toMatchObject({ role: "assistant", [name]: "Hm." });
    expect(dropped).toEqual([]);
  }
});

test("a vendor that knows its own dialect alone is not sent images of earlier replies, and each place is named", () => {
  const images = [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg" } }];
  const messages = [user, { role: "assistant", content: "Here.", images }, user];
  const { body, dropped } = send(toVendor("mistral"), { messages });
  expect([body["messages"], dropped]).toEqual([
    [user, { role: "assistant", content: "Here." }, user],
    ["messages[1].images"],
  ]);
  for (const id of ["openrouter", "qwen-of-ones-own"]) {
    expect(send(toVendor(id), { messages })).toMatchObject({ body: { messages }, dropped: [] });
  }
});

describe("a vendor that minds the order of roles (Mistral: Unexpected role 'user' after role 'tool')", () => {
  const system = (content: string) => ({ role: "system", content });
  const call = { id: "abcdefghi", type: "function", function: { name: "f", arguments: "{}" } };
  const called = { role: "assistant", content: null, tool_calls: [call] };
  const result = { role: "tool", tool_call_id: call.id, content: "x" };
  const said = { role: "assistant", content: "a" };
  const between = { role: "assistant", content: "OK." };

  test("gets a word of the assistant between a result and the user, from clients of every dialect", () => {
    const messages = [user, called, result, user];
    const { body, dropped } = send(toVendor("mistral"), { messages });
    expect([body["messages"], dropped]).toEqual([[user, called, result, between, user], []]);
    const turns = [
      user,
      { role: "assistant", content: [{ type: "tool_use", id: call.id, name: "f", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: call.id, content: "x" },
          { type: "text", text: "Hi" },
        ],
      },
    ];
    const across = send({ ...toVendor("mistral"), from: "messages" }, { messages: turns });
    expect([across.body["messages"], across.dropped]).toEqual([[user, called, result, between, user], []]);
  });

  test("gets system messages that came later at the beginning, in their order; behind the user they stay", () => {
    const messages = [
      system("1"),
      user,
      system("2"),
      called,
      result,
      { role: "developer", content: "3" },
      said,
      system("4"),
      user,
    ];
    const { body, dropped } = send(toVendor("mistral"), { messages });
    expect([body["messages"], dropped]).toEqual([
      [system("1"), system("3"), system("4"), user, system("2"), called, result, said, user],
      [],
    ]);
    const unled = [user, said, system("1"), user];
    expect(send(toVendor("mistral"), { messages: unled }).body["messages"]).toEqual([system("1"), user, said, user]);
  });

  test("so do its models elsewhere", () => {
    const messages = [user, called, result, user];
    const way = { ...toVendor("openrouter"), orders: { upstreamModel: "mistralai/mistral-large-4-0" } };
    expect(send(way, { messages }).body["messages"]).toEqual([user, called, result, between, user]);
  });

  test("others get every message where it was", () => {
    const messages = [user, called, result, system("1"), user];
    expect(send(toVendor("groq"), { messages }).body["messages"]).toEqual(messages);
  });
});

describe("a model that once wrote arguments that are no JSON (vLLM: Expecting ',' delimiter)", () => {
  const written: [string, string][] = [
    ['{"cmd": "echo', '{"value":"{\\"cmd\\": \\"echo"}'],
    ['["a"]', '{"value":["a"]}'],
    ['"{\\"a\\":1}"', '{"a":1}'],
    ["null", "{}"],
    // A long line is broken by what stands in it, and by its end.
    [`{"t":"${"x".repeat(600)}\n"}`, JSON.stringify({ value: `{"t":"${"x".repeat(600)}\n"}` })],
    [`{"t":"${"x".repeat(600)}\\'"}`, JSON.stringify({ value: `{"t":"${"x".repeat(600)}\\'"}` })],
    [`{"t":"${"x".repeat(600)}`, JSON.stringify({ value: `{"t":"${"x".repeat(600)}` })],
    [`{\n"t":"${"x".repeat(600)}\\n"}`, `{\n"t":"${"x".repeat(600)}\\n"}`],
    ['{"n":12345678901234567890} ', '{"n":12345678901234567890} '],
    // MiniMax: invalid function arguments json string
    ["", "{}"],
  ];
  const turns = (text: string) => [
    user,
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "abcdefghi", type: "function", function: { name: "f", arguments: text } }],
    },
    { role: "tool", tool_call_id: "abcdefghi", content: "x" },
  ];

  test.each(written)("its conversation goes on at servers that read them: %s", (text, read) => {
    for (const id of ["mistral", "groq", "openrouter", "vllm", "ollama"]) {
      expect((send(toVendor(id), { messages: turns(text) }).body["messages"] as object[])[1]).toMatchObject({
        tool_calls: [{ function: { name: "f", arguments: read } }],
      });
    }
    // OpenAI takes them as they are.
    expect(send(toVendor("azure"), { messages: turns(text) }).body["messages"]).toEqual(turns(text));
  });

  test("so it does for a client of another dialect", () => {
    const [[text, read]] = written as [[string, string]];
    const input = [
      { role: "user", content: "Hi" },
      { type: "function_call", call_id: "abcdefghi", name: "f", arguments: text },
      { type: "function_call_output", call_id: "abcdefghi", output: "x" },
    ];
    expect(send({ ...toVendor("vllm"), from: "responses" }, { input }).body["messages"]).toEqual(turns(read));
  });
});

test.each(["zai", "qwen"])("%s has the user begin, and refuses what does not", (id) => {
  const system = { role: "system", content: "Name a colour." };
  const said = { role: "assistant", content: "Hello." };
  const opening = { role: "user", content: "(continue)" };
  const told = (...messages: object[]) => send(toVendor(id), { messages }).body["messages"];
  expect(told(system)).toEqual([system, opening]);
  expect(told(system, said, user)).toEqual([system, opening, said, user]);
  expect(told(said, user)).toEqual([opening, said, user]);
  expect(told(system, user)).toEqual([system, user]);
  expect(send(toVendor("xai"), { messages: [system] }).body["messages"]).toEqual([system]);
});

describe("a vendor to which user and assistant take turns", () => {
  const quirks = { noDeveloperRole: true, alternatingRoles: true, userFirst: true, noJsonObject: true } as const;
  const inTurns = { from: "chat", to: "chat", quirks } as const;
  const says = (role: string, content: unknown) => ({ role, content });

  test("gets neighbours of one role as one message, and all system messages first", () => {
    const picture = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
    const messages = [
      says("system", "1"),
      says("user", "file"),
      says("user", "question"),
      says("assistant", "a"),
      says("assistant", "b"),
      says("system", "2"),
      says("user", "c"),
      says("developer", "3"),
      says("user", [picture]),
    ];
    const { body, dropped } = send(inTurns, { messages });
    expect([body["messages"], dropped]).toEqual([
      [
        ...["1", "2", "3"].map((text) => says("system", text)),
        says("user", "file\nquestion"),
        says("assistant", "a\nb"),
        says("user", [{ type: "text", text: "c" }, picture]),
      ],
      [],
    ]);
  });

  test("gets what is in turns already as it is, and calls with their results where they stand", () => {
    const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } };
    const messages = [
      says("system", "1"),
      says("system", "2"),
      user,
      { ...says("assistant", null), tool_calls: [call] },
      { ...says("tool", "x"), tool_call_id: "c1" },
      says("assistant", "a"),
      user,
    ];
    expect(send(inTurns, { messages }).body["messages"]).toEqual(messages);
  });

  test("gets words and the calls behind them as one message of the assistant", () => {
    const calls = { tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] };
    const result = { ...says("tool", "x"), tool_call_id: "c1" };
    for (const [content, one] of [
      [null, "a"],
      ["", "a"],
      ["b", "a\nb"],
      [[{ type: "text", text: "b" }], ["a", "b"].map((text) => ({ type: "text", text }))],
    ]) {
      const messages = [user, says("assistant", "a"), { ...says("assistant", content), ...calls }, result];
      const told = [user, { ...says("assistant", one), ...calls }, result];
      expect(send(inTurns, { messages }).body["messages"]).toEqual(told);
    }
  });

  test("is asked for JSON in words where no schema is given, which is all that it knows", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const { body, dropped } = send(inTurns, {
      messages: [user],
      response_format: { type: "json_object" },
    });
    expect([body, dropped]).toEqual([
      { model: "up-1", messages: [says("system", "Answer with one JSON object and nothing else."), user] },
      [],
    ]);
    const format = { type: "json_schema", json_schema: { name: "o", schema } };
    const told = send(inTurns, { messages: [user], response_format: format });
    expect([told.body["response_format"], told.body["messages"]]).toEqual([format, [user]]);
  });
});

describe("stop sequences of a chat client beyond those its vendor takes (dialects.md 4.1)", () => {
  const { body, dropped, changes } = send(toVendor("zai"), { messages: [user], stop: ["A", "B", "C"] });

  test("are not told, and watched for", () => {
    expect([body["stop"], dropped, changes?.stops]).toEqual([["A"], [], ["B", "C"]]);
    const whole = reply(
      toVendor("zai"),
      { id: "1", choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "one B two" } }] },
      changes,
    ) as { choices: { message: { content: string }; finish_reason: string }[] };
    expect(whole.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "one " } });
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: "1", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const sse = stream(
      toVendor("zai"),
      `${chunk({ content: "one B two" })}${chunk({}, "stop")}data: [DONE]\n\n`,
      changes,
    );
    expect(sse).toContain("one ");
    expect(sse).not.toContain("two");
    expect(sse.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  test("one too long to be watched for is named as lost; what fits is left as it is", () => {
    const long = send(toVendor("zai"), { messages: [user], stop: ["A", "x".repeat(501)] });
    expect([long.body["stop"], long.dropped]).toEqual([["A"], ["stop"]]);
    const fits = send(toVendor("zai"), { messages: [user], stop: "A" });
    expect([fits.body["stop"], fits.changes]).toEqual(["A", undefined]);
  });
});

describe("a vendor without JSON Schema as an output format", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "string" } },
    required: ["a"],
    additionalProperties: false,
  };
  const format = { type: "json_schema", json_schema: { name: "o", schema } };

  test.each([
    ["wrapped", format],
    ["alone", { type: "json_schema", schema }],
  ])("is asked for JSON, and told the schema in the system prompt: %s", (_how, asked) => {
    for (const messages of [[user], [{ role: "system", content: "Be brief." }, user]]) {
      const { body } = send(toVendor("deepseek"), { messages, response_format: asked });
      const [system] = body["messages"] as { role: string; content: string }[];
      expect(body["response_format"]).toEqual({ type: "json_object" });
      expect(system).toMatchObject({ role: "system" });
      expect(system?.content).toContain(JSON.stringify(schema));
    }
    const { body } = send(toVendor("qwen"), { messages: [user], response_format: format });
    expect([body["response_format"], body["messages"]]).toEqual([format, [user]]);
  });

  test("is told what the format is for, where the schema itself does not say it", () => {
    const hintFor = (asked: object) => {
      const { body } = send(toVendor("deepseek"), { messages: [user], response_format: asked });
      return JSON.stringify(body["messages"]);
    };
    const about = { description: "A forecast" };
    expect(hintFor({ ...format, json_schema: { ...format.json_schema, ...about } })).toContain("A forecast");
    expect(hintFor({ type: "json_schema", schema, ...about })).toContain("A forecast");
    const own = { ...schema, description: "Its own" };
    expect(hintFor({ type: "json_schema", json_schema: { name: "o", schema: own, ...about } })).not.toContain(
      "forecast",
    );
  });

  test("cannot be held to it strictly, which is named where it was asked for", () => {
    const strict = { name: "o", schema, strict: true };
    const asked = { messages: [user], response_format: { type: "json_schema", json_schema: strict } };
    expect(send(toVendor("deepseek"), asked).dropped).toEqual(["response_format.json_schema.strict"]);
    expect(send(toVendor("qwen"), asked).dropped).toEqual([]);
    expect(send(toVendor("deepseek"), { messages: [user], response_format: format }).dropped).toEqual([]);
    const way = { from: "responses", to: "chat", quirks: quirksOf("deepseek") } as const;
    const text = { format: { type: "json_schema", ...strict } };
    expect(send(way, { input: "Hi", text }).dropped).toEqual(["text.format.strict"]);
  });
});

test("a vendor that refuses some tools to be strict and others not (Cerebras) is told none is, and each that was is named", () => {
  const parameters = { type: "object", properties: {}, required: [], additionalProperties: false };
  const tool = (name: string, strict?: boolean) => ({
    type: "function",
    function: { name, parameters, ...(strict !== undefined && { strict }) },
  });
  const loose = [tool("f"), tool("g"), tool("h")];
  const mixed = [tool("f", false), tool("g", true), tool("h")];
  const { body, dropped } = send(toVendor("cerebras"), { messages: [user], tools: mixed });
  expect([body["tools"], dropped]).toEqual([loose, ["tools[1].function.strict"]]);
  for (const even of [loose, [tool("f", true), tool("g", true)], [tool("f", false)]]) {
    const told = send(toVendor("cerebras"), { messages: [user], tools: even });
    expect([told.body["tools"], told.dropped]).toEqual([even, []]);
  }
  expect(send(toVendor("groq"), { messages: [user], tools: mixed }).body["tools"]).toEqual(mixed);
  const way = { from: "responses", to: "chat", quirks: quirksOf("cerebras") } as const;
  const open = { type: "object", properties: { a: { type: "string" } } };
  const own = [
    { type: "function", name: "f", parameters: open, strict: true },
    { type: "function", name: "g", parameters, strict: true },
  ];
  const across = send(way, { input: "Hi", tools: own });
  expect(across.text).not.toContain("strict");
  expect(across.dropped).toEqual(["tools[0].strict", "tools[1].strict"]);
});

describe("a vendor that takes no output format beside tools (Groq, Cerebras)", () => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  const strict = { name: "o", schema, strict: true };
  const format = { type: "json_schema", json_schema: strict };
  const called = { name: "f", parameters: { type: "object", properties: {} } };
  const tools = [{ type: "function", function: called }];

  test.each(["groq", "cerebras"])("%s is asked for it in words, and keeps it where there are none", (id) => {
    for (const list of [{ tools }, { functions: [called] }]) {
      const { body, dropped } = send(toVendor(id), { messages: [user], response_format: format, ...list });
      const [system] = body["messages"] as { role: string; content: string }[];
      expect(body).not.toContainKey("response_format");
      expect([body["tools"], dropped]).toEqual([tools, ["response_format.json_schema.strict"]]);
      expect(system?.role).toBe("system");
      expect(system?.content).toContain(JSON.stringify(schema));
    }
    const json = send(toVendor(id), { messages: [user], response_format: { type: "json_object" }, tools });
    expect([json.body["response_format"], json.dropped]).toEqual([undefined, []]);
    expect(json.body["messages"]).toMatchObject([{ role: "system" }, user]);
    const text = { type: "text" };
    expect(send(toVendor(id), { messages: [user], response_format: text, tools }).body).toMatchObject({
      messages: [user],
      response_format: text,
    });
    for (const none of [{}, { tools: [] }]) {
      const { body, dropped } = send(toVendor(id), { messages: [user], response_format: format, ...none });
      expect([body["response_format"], body["messages"], dropped]).toEqual([format, [user], []]);
    }
  });

  test("from clients of other dialects too; others are told both", () => {
    const way = { from: "responses", to: "chat", quirks: quirksOf("groq") } as const;
    const asked = { input: "Hi", text: { format: { type: "json_schema", ...strict } } };
    const { body, dropped } = send(way, { ...asked, tools: [{ type: "function", ...called }] });
    expect([body["response_format"], dropped]).toEqual([undefined, ["text.format.strict"]]);
    expect(send(way, asked).body["response_format"]).toMatchObject({ type: "json_schema" });
    const both = send(toVendor("mistral"), { messages: [user], response_format: format, tools });
    expect([both.body["response_format"], both.body["messages"]]).toEqual([format, [user]]);
  });
});

test("a vendor that knows no choice of tools but its own is told none where none may be called, and asked in words for one that must be", () => {
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
  const ask = (id: string, tool_choice: unknown) => send(toVendor(id), { messages: [user], tools, tool_choice });
  const none = ask("zai", "none");
  expect([none.body, none.dropped]).toEqual([{ model: "up-1", messages: [user] }, []]);
  expect(ask("moonshotai", "none").body).toMatchObject({ tool_choice: "none", tools });
  for (const choice of ["required", { type: "function", function: { name: "f" } }]) {
    const { body } = ask("zai", choice);
    expect(body).toMatchObject({ tool_choice: "auto", tools });
    expect(body["messages"]).toMatchObject([{ role: "system" }, user]);
  }
});

describe("what every vendor refuses is refused here, with its place", () => {
  const refused: [string, object, string][] = [
    ["a schema format without a schema", { response_format: { type: "json_schema" } }, "response_format.json_schema"],
    ["a forced choice without tools", { tool_choice: "required" }, "tool_choice"],
    ["a named choice without tools", { tool_choice: { type: "function", function: { name: "f" } } }, "tool_choice"],
    ["the older choice without functions", { function_call: { name: "f" } }, "function_call"],
    ...["notaurl", "data:image/png;base64,!!!", "data:image/png;base64,"].map((url): [string, object, string] => [
      `an image at ${url}`,
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] },
      "messages[0].content[0].image_url.url",
    ]),
  ];
  test.each(refused)("%s", (_name, body, param) => {
    const fault = faultOf(() => send({ from: "chat", to: "messages" }, { messages: [user], ...body }));
    expect([fault.code, fault.param]).toEqual(["invalid_request", param]);
  });

  test.each([
    ["temperature", -0.1],
    ["top_p", 1.1],
    ["top_p", -0.5],
  ])("sampling beyond all bounds, on its way to another dialect: %s %p", (field, value) => {
    const asked = { messages: [user], [field]: value };
    for (const to of ["messages", "responses", "gemini"] as const) {
      const fault = faultOf(() => send({ from: "chat", to }, asked));
      expect([fault.code, fault.param]).toEqual(["invalid_request", field]);
      expect(send({ from: "chat", to, orders: { dropSampling: true } }, asked).text).not.toContain(`${value}`);
    }
    // Some server of the client's own dialect knows what it means.
    expect(send({ from: "chat", to: "chat" }, asked).body[field]).toBe(value);
  });

  test("a temperature that is only too high is brought down to the vendor's most", () => {
    for (const [to, most] of [
      ["messages", 1],
      ["responses", 2],
    ] as const) {
      expect(send({ from: "chat", to }, { messages: [user], temperature: 3 }).body["temperature"]).toBe(most);
    }
  });

  test.each([
    ["zai", 1],
    ["mistral", 1.5],
    ["cerebras", 1.5],
    ["deepseek", 1.9],
  ])("a chat vendor's own most is kept too, from clients of every dialect: %s %p", (id, most) => {
    for (const from of ["chat", "responses"] as const) {
      const asked = from === "chat" ? { messages: [user] } : { input: "Hi" };
      const way = { from, to: "chat", quirks: quirksOf(id) } as const;
      expect(send(way, { ...asked, temperature: 1.9 }).body["temperature"]).toBe(most);
      expect(send(way, { ...asked, temperature: 0.9 }).body["temperature"]).toBe(0.9);
      const reasons = send({ ...way, orders: { dropSampling: true } }, { ...asked, temperature: 1.9 });
      expect(reasons.body).not.toContainKey("temperature");
    }
  });

  test("what nobody knows of a choice is named", () => {
    const tools = [{ type: "function", function: { name: "f" } }];
    const chosen = (tool_choice: unknown) =>
      send({ from: "chat", to: "messages" }, { messages: [user], tools, tool_choice });
    for (const choice of ["sometimes", {}, { type: "function" }])
      expect(chosen(choice).dropped).toEqual(["tool_choice"]);
    const allowed = (...names: string[]) => ({ mode: "auto", tools: names.map((name) => ({ function: { name } })) });
    const among = (...names: string[]) => chosen({ type: "allowed_tools", allowed_tools: allowed(...names) }).dropped;
    expect([among("f"), among("f", "g"), among("g")]).toEqual([
      [],
      ["tool_choice.allowed_tools"],
      ["tool_choice.allowed_tools"],
    ]);
    const asked = (...names: string[]): Record<string, unknown> => ({
      input: "Hi",
      tools: [{ type: "function", name: "f" }],
      tool_choice: { type: "allowed_tools", mode: "auto", tools: names.map((name) => ({ type: "function", name })) },
    });
    const way = { from: "responses", to: "messages" } as const;
    expect([send(way, asked("f")).dropped, send(way, asked("g")).dropped]).toEqual([[], ["tool_choice.tools"]]);
  });

  test("a choice that forces nothing needs no tools", () => {
    for (const choice of ["auto", "none"]) {
      expect(send({ from: "chat", to: "messages" }, { messages: [user], tool_choice: choice }).dropped).toEqual([]);
    }
  });
});

describe("temperature and top_p together towards Claude models (dialects.md 4.1)", () => {
  const both = { messages: [user], temperature: 1, top_p: 0.5 };
  const claude = { from: "messages", to: "messages", orders: { upstreamModel: "claude-opus-4-6" } } as const;

  test("the temperature stays, and the loss is named once", () => {
    const { body, dropped } = send(claude, both);
    expect([body["temperature"], body["top_p"], dropped]).toEqual([1, undefined, ["top_p"]]);
    const { orders } = claude;
    const active = send({ ...claude, orders: { ...orders, dropSampling: true } }, both);
    expect(active.dropped.toSorted()).toEqual(["temperature", "top_p"]);
  });

  test("other models, and one of the two, are left alone", () => {
    expect(send({ from: "messages", to: "messages" }, both).body).toMatchObject({ temperature: 1, top_p: 0.5 });
    expect(send(claude, { messages: [user], top_p: 0.5 }).body).toMatchObject({ top_p: 0.5 });
  });
});
