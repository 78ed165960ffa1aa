import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const REPLY = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
  content: [{ type: "text", text: "ok" }],
  usage: { input_tokens: 3, output_tokens: 2 },
};

/** A Claude model behind an inference profile of Bedrock's, a deployment of Azure's or another gateway. */
describe("a Claude model of a name that nobody knows", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const DEPRECATED = "`temperature` is deprecated for this model.";
  const BEHIND = "The model returned the following errors: ";
  const inside = { type: "error", request_id: "req_1", error: { type: "invalid_request_error", message: DEPRECATED } };
  const turns = [{ role: "user", content: "Hi" }];
  let models = 0;

  beforeAll(async () => {
    upstream = startUpstream();
    const rows = (["messages", "chat"] as const).map((dialect) => vendorAt(upstream, dialect, dialect));
    gateway = await startApp({ vendors: rows });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const told = () => upstream.calls.map(({ json: body }) => (body as Wire)["temperature"]);

  test.each([
    ["messages", "/v1/messages", DEPRECATED],
    ["messages", "/v1/chat/completions", `${BEHIND}${DEPRECATED}`],
    ["messages", "/v1/messages", `${BEHIND}${JSON.stringify(inside)}`],
    ["chat", "/v1/chat/completions", DEPRECATED],
    ["chat", "/v1/messages", `${BEHIND}temperature is deprecated for this model.`],
    [
      "chat",
      "/v1/chat/completions",
      `litellm.BadRequestError: BedrockException - ${JSON.stringify({ message: `${BEHIND}${JSON.stringify(inside)}` })}`,
    ],
    [
      "chat",
      "/v1/chat/completions",
      "BAD_REQUEST: Model eu.anthropic.claude-opus-5 does not support the temperature parameter.",
    ],
  ] as const)(
    "of %s is told again without the temperature that a client of %s wants: %s",
    async (row, path, message) => {
      const [there, reply] =
        row === "chat" ? (["/v1/chat/completions", chatReply("ok")] as const) : (["/v1/messages", REPLY] as const);
      upstream.always(there, ({ json: body }) =>
        "temperature" in (body as Wire) ? json({ error: { message } }, { status: 400 }) : json(reply),
      );
      const body = { model: `${row}/profile-${models++}`, max_tokens: 90, temperature: 0.3, messages: turns };
      for (const attempts of ["2", null]) {
        const { status, headers } = await gateway.post(path, body);
        expect([status, headers.get("x-sluice-attempts"), headers.get("x-sluice-dropped")]).toEqual([
          ...[200, attempts, "temperature"],
        ]);
      }
      expect(told()).toStrictEqual([0.3, undefined, undefined]);
    },
  );

  test.each([
    ["messages", "/v1/messages", ""],
    ["chat", "/v1/chat/completions", ""],
    ["chat", "/v1/messages", "litellm.BadRequestError: BedrockException - "],
  ] as const)("of %s is sampled in one of two ways that a client of %s wants: %s", async (row, path, before) => {
    const message = `${before}\`temperature\` and \`top_p\` cannot both be specified for this model. Please use only one.`;
    const [there, reply] =
      row === "chat" ? (["/v1/chat/completions", chatReply("ok")] as const) : (["/v1/messages", REPLY] as const);
    upstream.always(there, ({ json: body }) =>
      "temperature" in (body as Wire) && "top_p" in (body as Wire)
        ? json({ error: { message } }, { status: 400 })
        : json(reply),
    );
    const body = { model: `${row}/profile-${models++}`, max_tokens: 90, top_p: 0.9, messages: turns };
    const { status, headers } = await gateway.post(path, { ...body, temperature: 0.3 });
    expect([status, headers.get("x-sluice-dropped")]).toEqual([200, "top_p"]);
    // Of one alone nothing was said.
    expect((await gateway.post(path, body)).headers.get("x-sluice-dropped")).toBeNull();
    expect(upstream.calls.map(({ json: asked }) => (asked as Wire)["top_p"])).toStrictEqual([0.9, undefined, 0.9]);
    expect(told()).toStrictEqual([0.3, 0.3, undefined]);
  });

  test("is told a budget for its thinking as an effort, once it has refused it, and whatever else is wished as it came", async () => {
    const message =
      '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.';
    upstream.always("/v1/messages", ({ json: body }) => {
      const { thinking } = body as { thinking?: Wire };
      return thinking?.["type"] === "enabled" ? json({ error: { message } }, { status: 400 }) : json(REPLY);
    });
    const adaptive = { type: "adaptive", display: "summarized" };
    const wishes: [wish: Wire, attempts: string | null, told: Wire][] = [
      [
        { thinking: { type: "enabled", budget_tokens: 4_000 } },
        "2",
        { thinking: adaptive, output_config: { effort: "low" } },
      ],
      [
        { thinking: { type: "enabled", budget_tokens: 30_000, display: "omitted" } },
        null,
        { thinking: { ...adaptive, display: "omitted" }, output_config: { effort: "xhigh" } },
      ],
      [{ thinking: { type: "disabled" } }, null, { thinking: { type: "disabled" } }],
      [{ thinking: { type: "adaptive" } }, null, { thinking: { type: "adaptive" } }],
      [{}, null, {}],
    ];
    for (const [wish, attempts, told] of wishes) {
      const { status, headers } = await gateway.post("/v1/messages", {
        ...{ model: "messages/deployment", max_tokens: 64_000, messages: turns },
        ...wish,
      });
      expect([status, headers.get("x-sluice-attempts"), headers.get("x-sluice-dropped")]).toEqual([
        200,
        attempts,
        null,
      ]);
      const last = upstream.calls.at(-1)?.json as Wire;
      const { thinking, output_config } = last;
      expect({
        ...(thinking !== undefined && { thinking }),
        ...(output_config !== undefined && { output_config }),
      }).toEqual(told);
    }
  });

  test("that always thinks is not told to stop, and what else is wished goes as it came", async () => {
    const message = '"thinking.type.disabled" is not supported for this model.';
    upstream.always("/v1/messages", ({ json: body }) =>
      ((body as Wire)["thinking"] as Wire | undefined)?.["type"] === "disabled"
        ? json({ error: { message } }, { status: 400 })
        : json(REPLY),
    );
    const asked = { model: "messages/fable", max_tokens: 90, messages: turns };
    const off = await gateway.post("/v1/messages", { ...asked, thinking: { type: "disabled" } });
    expect([off.status, off.headers.get("x-sluice-dropped")]).toEqual([200, "thinking"]);
    expect(upstream.calls.at(-1)?.json).not.toHaveProperty("thinking");
    const on = await gateway.post("/v1/messages", { ...asked, thinking: { type: "adaptive" } });
    expect([on.status, on.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(upstream.calls.at(-1)?.json).toMatchObject({ thinking: { type: "adaptive" } });
  });

  test("that continues no turn of its own is answered by the user, as one of a known name", async () => {
    const message = `${BEHIND}This model does not support assistant message prefill. The conversation must end with a user message.`;
    const rolesIn = (body: unknown) => (body as { messages: Wire[] }).messages.map(({ role }) => role);
    upstream.always("/v1/messages", ({ json: body }) =>
      rolesIn(body).at(-1) === "assistant" ? json({ error: { message } }, { status: 400 }) : json(REPLY),
    );
    const messages = [...turns, { role: "assistant", content: "I will" }];
    for (const attempts of ["2", null]) {
      const response = await gateway.post("/v1/messages", { model: "messages/profile", max_tokens: 90, messages });
      const { status, headers } = response;
      expect([status, headers.get("x-sluice-attempts"), headers.get("x-sluice-dropped")]).toEqual([
        ...[200, attempts, "prefill"],
      ]);
      expect(rolesIn(upstream.calls.at(-1)?.json)).toEqual(["user", "assistant", "user"]);
    }
  });
});
