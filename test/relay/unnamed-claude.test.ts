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
      expect(told()).toEqual([0.3, undefined, undefined]);
    },
  );
});
