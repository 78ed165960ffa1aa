import { expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { messages } from "../../src/dialects/messages/index.ts";
import { asFinal, readUpstreamError } from "../../src/dialects/refusals/upstream-error.ts";
import { hideFromExcerpts } from "../../src/dialects/scrub.ts";

const shown = (message: string) => readUpstreamError(400, JSON.stringify({ error: { message } })).message;

test("a vendor that repeats its key shows it to nobody, whatever it looks like and wherever it stands", () => {
  // Another one each time: what a process has hidden once it hides as long as it runs.
  const key = `lab.${crypto.randomUUID()}:PLAIN/key`;
  expect(shown(`You sent ${key}.`)).toContain(key);
  hideFromExcerpts(key);
  expect(shown(`You sent ${key}, and again ${key}.`)).toBe(
    "The vendor refused the request. It says: You sent [removed], and again [removed].",
  );
  // As it was encoded on its way.
  const encoded = [encodeURIComponent(key), Buffer.from(key).toString("base64").replace(/=+$/, "")];
  for (const form of encoded) expect(shown(`You sent ${form}.`)).toEndWith("It says: You sent [removed].");
  // Across the place where long texts are cut.
  for (let before = 1_180; before < 1_210; before++) {
    expect(shown("x".repeat(before) + key)).not.toContain("lab.");
  }
  // One that begins as it does, and that was told later.
  hideFromExcerpts(`${key}-north`);
  expect(shown(`You sent ${key}-north, not ${key}.`)).toEndWith("It says: You sent [removed], not [removed].");
  // What is too short to be a key stays.
  hideFromExcerpts("the");
  expect(shown("What the vendor says.")).toContain("What the vendor says.");
});

test.each([
  [
    `AnthropicException - {"type":"error","error":{"type":"invalid_request_error","message":"No \\"room\\"."}}`,
    'No "room".',
  ],
  [`AnthropicException - b'{"type":"error","error":{"message":"It\\'s \\\\"odd\\\\"."}}'`, `It's "odd".`],
  ["litellm.ContentPolicyViolationError: OpenAIException - Not this.", "Not this."],
  ["DeepseekException - {half", "{half"],
  ["no vendor's words", "litellm.BadRequestError: no vendor's words"],
])("the words of a vendor behind LiteLLM are those that are told: %s", (words, told) => {
  const end = "\n\nLiteLLM: model group 'x' failed with the error above. No fallback was attempted.";
  expect(shown(`litellm.BadRequestError: ${words}${end}`)).toStartWith(
    `The vendor refused the request. It says: ${told}`,
  );
});

test("a refusal in plain text is told, a web page and what is torn are not", () => {
  const said = (body: string) => readUpstreamError(422, body).message;
  expect(said("\n Failed to read sk-abcdefgh12345678: unknown variant `x`\n")).toBe(
    "The vendor refused the request. It says: Failed to read [removed]: unknown variant `x`",
  );
  for (const body of ["", "  \n", "<html>Not this.</html>", " <!doctype html>Not", '{"odd":"Not', "[1, 2"])
    expect(said(body)).toBe("The vendor refused the request.");
});

test("what another gateway of this kind says of its vendor's refusal is not said twice", () => {
  expect(shown(shown("Not this."))).toBe("The vendor refused the request. It says: Not this.");
  const failed = (message: string) => asFinal(readUpstreamError(502, JSON.stringify({ error: { message } }))).message;
  const told = "The vendor failed, and says that asking again does not help. It says: No.";
  expect([failed("No."), failed(failed("No."))]).toEqual([told, told]);
});

test.each([
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
  "AKIAIOSFODNN7EXAMPLE",
  "user_locationabc123",
  "ya29.a0AfH6SMBx-abc_def",
  "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
  "github_pat_11ABCDEFG0abcdefghij",
  "xoxb-123456789012-abcdef",
  "ops@corp.example",
  "[::1]:8000",
  "fe80::1ff:fe23:4567:890a",
  "file:///home/bob/models/x.gguf",
  "ws://lab.internal:9000/x",
  "/home/bob/models/x.gguf",
  "/tools/bob/models/x.gguf",
  "~/models/x.gguf",
  String.raw`\\nas\models\x.gguf`,
])("a vendor's words are shown without %s", (secret) => {
  for (const [before, after] of [
    ["", ""],
    ["`", "`"],
    ["error:", ", sorry"],
    ["(", ")"],
    ["<", ">"],
  ]) {
    const told = shown(`It failed ${before}${secret}${after} here.`);
    expect(told).toStartWith("The vendor refused the request. It says: It failed ");
    expect(told).toEndWith(" here.");
    for (const word of ["bob", "corp", "lab.", "890a", "::1", "models", "abc", "EXAMPLE", "eyJ"]) {
      expect(told).not.toContain(word);
    }
  }
});

test.each([
  "#/messages/0: extraneous key [x] is not permitted",
  "Type mismatch of '/messages/0/content', 'null' not in 'string'",
  "Function tools with reasoning_effort are not supported for gpt-6-astra in /v1/chat/completions. Please use /v1/responses instead.",
  "Use and/or/not in std::string at 12:30:45, 1.5/2.5/3, or lab/model/x.",
  "tools[0].function.parameters: object schema missing properties",
  "tools.0.web_search_20250305.user_location.city: Input should be a valid string",
])("what points into the request stays: %s", (words) => {
  expect(shown(words)).toBe(`The vendor refused the request. It says: ${words}`);
});

test("a vendor's words are one line of whole characters, wherever they are cut", () => {
  expect(shown("a\u0000b\u202ec\u2028d\ud800e")).toEndWith("It says: a b c d\ufffde");
  for (const before of [297, 298, 299]) expect(shown("x".repeat(before) + "😀".repeat(9)).isWellFormed()).toBe(true);
});

const FAULT = { type: "extra_forbidden", loc: ["body", "messages", 0, "x"], msg: "Extra inputs are not permitted" };
const SENT = { messages: [{ content: "what the user said" }] };
/** What GMI's edge says where a model's server refused, with that server's words beside its own. */
const behindGmi = (details: string) => ({
  error: { message: "Backend request failed with status 400", type: "backend_error", code: 400, details },
});

test.each<[string, unknown, string]>([
  [
    "Mistral's",
    { object: "error", message: { detail: [{ ...FAULT, input: SENT }] }, type: "invalid_request_error", code: null },
    "body.messages.0.x: Extra inputs are not permitted",
  ],
  [
    "FastAPI's, of several",
    { detail: [{ input: SENT, ...FAULT }, { msg: "Field required" }, "and this"] },
    'body.messages.0.x: Extra inputs are not permitted; Field required; "and this"',
  ],
  ["FastAPI's, in a word", { detail: "Not so." }, "Not so."],
  ["Cloudflare's", { success: false, errors: [{ code: 5007, message: "No such thing." }] }, "No such thing."],
  ["Cloudflare's, of one", { success: false, errors: { code: 5006, message: "Bad input." } }, "Bad input."],
  ["Amazon's", { Message: "Not so." }, "Not so."],
  [
    "GMI's, of a server behind it",
    behindGmi('{"error":{"type":"invalid_request_error","message":"No such tool."}}'),
    "No such tool.",
  ],
  ...['{"error":{"code":"500"}}', '{"error', "<html>nginx</html>", ""].map((details): [string, unknown, string] => [
    `GMI's, of one that says nothing (${details})`,
    behindGmi(details),
    "Backend request failed with status 400",
  ]),
  [
    "Lemonade's, of a server behind it",
    {
      error: {
        ...{ message: "cloud (openai) request failed", type: "backend_error" },
        details: { status_code: 400, response: { error: { message: "No such tool.", type: "invalid_request_error" } } },
      },
    },
    "No such tool.",
  ],
  ["MiniMax's", { base_resp: { status_code: 2013, status_msg: "invalid params" } }, "invalid params"],
  [
    "MiMo's",
    { error: { message: "Param Incorrect", param: "It must not be empty" } },
    "Param Incorrect: It must not be empty",
  ],
  ["a gateway's", { code: 400, msg: "Not so." }, "Not so."],
])("the sentence of an error is found in %s form", (_whose, body, words) => {
  const { message } = readUpstreamError(422, JSON.stringify(body));
  expect(message).toBe(`The vendor refused the request. It says: ${words}`);
});

test("the sentence of an error is found in a record of a stream, whatever stands before its data (MiMo, Alibaba)", () => {
  const data = JSON.stringify({ code: "InvalidParameter", message: "Range of n should be [1, 4]", request_id: "r" });
  for (const before of ["", "event: error\n", "id:1\nevent:error\n:HTTP_STATUS/400\n"]) {
    expect(readUpstreamError(400, `${before}data:${data}\n\n`).message).toBe(
      "The vendor refused the request. It says: Range of n should be [1, 4]",
    );
  }
});

test("an error that repeats what it was sent says why also where its end was not read", () => {
  const long = "x".repeat(70_000);
  const cut = (body: unknown, space?: number) =>
    readUpstreamError(400, JSON.stringify(body, null, space).slice(0, 65_536)).message;
  for (const space of [undefined, 2]) {
    const told = "The vendor refused the request. It says: body.messages.0.x: Extra inputs are not permitted";
    expect(cut({ detail: [{ ...FAULT, input: long }] }, space)).toBe(told);
    expect(cut({ object: "error", message: { detail: [{ ...FAULT, input: long }] } }, space)).toBe(told);
    for (const body of [{ message: `"Why": ${long}` }, { error: { message: `"Why": ${long}`, type: "t" } }]) {
      expect(cut(body, space)).toStartWith('The vendor refused the request. It says: "Why": xxx');
    }
  }
  // What stands further in is what was sent, and says nothing of the vendor's account or key.
  const sent = { a: { message: "Your credit balance is too low" }, input: long };
  expect(cut({ detail: [{ loc: [], input: sent }] })).toBe("The vendor refused the request.");
});

test.each([
  ...["Your credit balance is too low", "Insufficient balance", "Invalid API key", "Model Not Exist"],
  ...["Key limit exceeded", "Usage limit reached for 5", "DEGRADED function cannot be invoked"],
])("a field that a client calls %j is its own fault, and says nothing of the gateway's account or key", (name) => {
  const message = `${name}: Extra inputs are not permitted`;
  const error = readUpstreamError(400, JSON.stringify({ error: { type: "invalid_request_error", message } }));
  expect([error.code, error.message]).toEqual([
    "invalid_request",
    `The vendor refused the request. It says: ${message}`,
  ]);
  const fault = { detail: [{ type: "extra_forbidden", loc: [name], msg: "Extra inputs are not permitted" }] };
  expect(readUpstreamError(422, JSON.stringify(fault)).code).toBe("invalid_request");
});

test("a conversation that a model's template refuses is the request's own fault, though llama.cpp tells it as one of its server", () => {
  const source = "...first %}\u21b5            {{- raise_exception('System message must be at the beginnin...";
  const message = `\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n${source}\n${" ".repeat(43)}^\nError: Jinja Exception: System message must be at the beginning.`;
  const tell = (words: string) =>
    readUpstreamError(500, JSON.stringify({ error: { code: 500, message: words, type: "server_error" } }));
  const error = tell(message);
  expect([error.code, error.message]).toEqual([
    "invalid_request",
    "The vendor refused the request. It says: Jinja Exception: System message must be at the beginning.",
  ]);
  expect(tell("Jinja is not there").code).toBe("upstream_error");
});

test("a request that LM Studio's engine refuses is no fault of LM Studio's, which asking again would cure", () => {
  const tell = (error: Record<string, unknown>) => {
    const message = `Engine protocol predict request returned 400: ${JSON.stringify({ error: { code: 400, ...error } })}`;
    return readUpstreamError(500, JSON.stringify({ error: { message, type: "internal_error", code: "unknown" } }));
  };
  const refused = tell({
    message: "Failed to initialize samplers: failed to parse grammar",
    type: "invalid_request_error",
  });
  expect([refused.code, refused.retry, refused.message]).toEqual([
    ...["invalid_request", false],
    "The vendor refused the request. It says: Failed to initialize samplers: failed to parse grammar",
  ]);
  const message = "the request exceeds the available context size, try increasing it";
  const tooLong = tell({ message, type: "exceed_context_size_error", n_prompt_tokens: 4612, n_ctx: 4096 });
  expect(tooLong.message).toStartWith("prompt is too long: 4612 tokens > 4096 maximum");
  const failed = readUpstreamError(
    500,
    JSON.stringify({
      error: { message: "Engine protocol predict request failed: fetch failed", type: "internal_error" },
    }),
  );
  expect([failed.code, failed.retry]).toEqual(["upstream_error", true]);
});

test("the word by which Anthropic's SDKs choose the class of an error goes with the refusal, and with it which images are too large; a sentence in its place does not", () => {
  const refusal = (details: unknown, status = 400) => {
    const error = { type: "invalid_request_error", message: "Nothing to summarize.", details };
    return readUpstreamError(status, JSON.stringify({ type: "error", error }));
  };
  const details = { error_code: "compaction_nothing_to_summarize" };
  const { status, body } = messages.encodeError(refusal({ ...details, account: "a" }), "req_1");
  const thrown = Anthropic.APIError.generate(status, body, undefined, new Headers());
  expect([thrown.status, thrown.error]).toMatchObject([400, { error: { details } }]);
  expect(JSON.stringify(body)).not.toContain("account");
  const large = {
    error_code: "image_dimensions_too_large",
    max_side_length_pixels: 2000,
    paths: ["messages.0.content.1"],
  };
  expect(refusal(large).extra).toEqual({ details: large });
  const unlike = { error_code: "other", max_side_length_pixels: "acme", paths: ["messages.0.content.1", "of acme"] };
  expect(refusal(unlike).extra).toEqual({ details: { error_code: "other" } });
  for (const other of [{ error_code: "Your account: acme" }, { error_code: 7 }, [details], null]) {
    expect(refusal(other).extra).toEqual({});
  }
  expect(refusal(details, 401).extra).toEqual({});
});
