import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { GREETING } from "../sdk/replies.ts";
import { responses } from "../sdk/vendors/responses.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";
const user = { role: "user", content: "Hi" };
const SESSION = "0d9f3c1e-54b1-4f7c-9a55-1c2d3e4f5a6b";
const ACCOUNT = "b81c2f0a-aaaa-4bbb-8ccc-0123456789ab";
/** Keys are of our own making: they fit every vendor's bound and every header. */
const KEY = /^[0-9a-f]{32}$/;

/** What agents say of their session, by the dialect they speak (Claude Code before 2.1.78 and since, Codex, OpenCode, Cline at OpenRouter). */
const TOLD: [path: string, body: Wire, headers: Record<string, string>][] = [
  [CHAT, { prompt_cache_key: SESSION }, {}],
  [CHAT, {}, { "x-session-affinity": SESSION }],
  [CHAT, { session_id: SESSION }, {}],
  [RESPONSES, { prompt_cache_key: SESSION }, {}],
  [RESPONSES, {}, { session_id: SESSION }],
  [MESSAGES, { metadata: { user_id: `user_${"a1".repeat(32)}_account_${ACCOUNT}_session_${SESSION}` } }, {}],
  [
    MESSAGES,
    { metadata: { user_id: JSON.stringify({ device_id: "d", account_uuid: ACCOUNT, session_id: SESSION }) } },
    {},
  ],
  [MESSAGES, { metadata: { user_id: "u" } }, { "x-claude-code-session-id": SESSION }],
];
const ASKED: Record<string, Wire> = {
  [CHAT]: { messages: [user] },
  [MESSAGES]: { max_tokens: 100, messages: [user] },
  [RESPONSES]: { input: "Hi" },
};

describe("the session that a client names", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  beforeAll(async () => {
    upstream = startUpstream();
    const vendors = registry
      .filter(({ modality, dialect }) => !modality && dialect !== "gemini")
      .map(({ id, dialect, quirks }) => vendorAt(upstream, dialect as "chat", id, quirks));
    const own = vendorAt(upstream, "chat", "own", { sessionHeader: "x-my-session" });
    const refuses = { sessionField: "my_session", unknownFields: ["prompt_cache_key"] };
    const demanding = { sessionHeader: "x-opencode-session", needsSession: true };
    const others = [own, vendorAt(upstream, "chat", "refuses", refuses), vendorAt(upstream, "chat", "zen", demanding)];
    gateway = await startApp({ vendors: [...vendors, ...others] });
  });
  afterEach(() => upstream.reset());
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const ask = async (path: string, model: string, more: Wire, headers: Record<string, string> = {}) => {
    upstream.always(CHAT, json(chatReply("ok")));
    upstream.always(RESPONSES, json(responses.whole(GREETING, "m")));
    const response = await gateway.post(path, { model, ...ASKED[path], ...more }, { headers });
    expect(response.status).toBe(200);
    const [call] = upstream.calls.splice(0);
    const dropped = response.headers.get("x-sluice-dropped");
    return { headers: call?.headers ?? {}, body: call?.json as Wire, dropped, text: call?.text ?? "" };
  };

  test.each(TOLD)("goes to vendors that find its cache by a header: %s %j %j", async (path, told, headers) => {
    for (const [model, header] of [
      ["xai/grok-4.7", "x-grok-conv-id"],
      ["fireworks/m", "x-session-affinity"],
      ["zai/glm-5.3", "x-session-id"],
      ["own/m", "x-my-session"],
    ] as const) {
      const first = await ask(path, model, told, headers);
      expect([model, first.headers[header]]).toEqual([model, expect.stringMatching(KEY)]);
      expect(first.dropped ?? "").not.toMatch(/prompt_cache_key|session_id/);
      expect((await ask(path, model, told, headers)).headers[header]).toBe(first.headers[header] as string);
      expect(`${first.headers[header]}`).not.toContain(SESSION);
    }
  });

  test.each(TOLD)("and to those that find it by a field: %s %j %j", async (path, told, headers) => {
    for (const [model, field] of [
      ["mistral/m", "prompt_cache_key"],
      ["moonshotai/m", "prompt_cache_key"],
      ["openai/gpt-5.5", "prompt_cache_key"],
      ["openrouter/m", "session_id"],
    ] as const) {
      const { body, dropped } = await ask(path, model, told, headers);
      // What has the vendor's own name goes on as it is.
      expect([model, body[field]]).toEqual([model, told[field] ?? expect.stringMatching(KEY)]);
      expect(dropped ?? "").not.toMatch(/prompt_cache_key|session_id/);
    }
  });

  test("is named as lost where its vendor turns out to refuse the field", async () => {
    const words = "Unknown parameter: 'my_session'.";
    upstream.answer(
      CHAT,
      json({ error: { message: words, type: "invalid_request_error", param: "my_session" } }, { status: 400 }),
    );
    const first = await ask(CHAT, "refuses/m", { prompt_cache_key: SESSION });
    expect(first.body["my_session"]).toMatch(KEY);
    const later = await ask(CHAT, "refuses/m", { prompt_cache_key: SESSION });
    expect([later.body["my_session"], later.dropped]).toEqual([undefined, "prompt_cache_key"]);
    expect(first.dropped).toBe("prompt_cache_key");
  });

  test("is the same key in every dialect, another one for each session and account, and says nothing of either", async () => {
    const keys = new Set<string>();
    for (const [path, told, headers] of TOLD) {
      keys.add((await ask(path, "xai/grok-4.7", told, headers)).headers["x-grok-conv-id"] ?? "");
    }
    expect([...keys]).toEqual([expect.stringMatching(KEY)]);
    const other = await ask(CHAT, "xai/grok-4.7", { prompt_cache_key: "other" });
    expect(keys).not.toContain(other.headers["x-grok-conv-id"] as string);
  });

  test("is its conversation's where a vendor refuses a request that names none", async () => {
    const tell = async (messages: Wire[], more: Wire = {}, headers: Record<string, string> = {}) =>
      (await ask(CHAT, "zen/m", { messages, ...more }, headers)).headers["x-opencode-session"];
    const first = await tell([user]);
    expect(first).toMatch(KEY);
    expect(await tell([user, { role: "assistant", content: "Hello." }, { role: "user", content: "And?" }])).toBe(first);
    expect(await tell([{ role: "user", content: "Another." }])).not.toBe(first);
    const named = await tell([user], {}, { "x-opencode-session": SESSION });
    expect([named, named === first]).toEqual([expect.stringMatching(KEY), false]);
    expect(await tell([user], { prompt_cache_key: SESSION })).toBe(named);
  });

  test("is not made up: not of a user, nor where none is named, nor for vendors that document no way", async () => {
    for (const [path, told] of [
      [CHAT, { user: "ann" }],
      [MESSAGES, { metadata: { user_id: "ann" } }],
      [RESPONSES, { safety_identifier: "ann" }],
    ] as const) {
      for (const model of ["xai/grok-4.7", "fireworks/m", "mistral/m", "openai/gpt-5.5", "openrouter/m"]) {
        const { headers, body } = await ask(path, model, told);
        expect(headers).not.toContainAnyKeys(["x-grok-conv-id", "x-session-affinity"]);
        expect(body).not.toContainAnyKeys(["prompt_cache_key", "session_id"]);
      }
    }
    for (const model of ["groq/m", "deepseek/m", "zai/m", "together/m", "cerebras/m", "azure/m", "vllm/m"]) {
      const { headers, body, text } = await ask(CHAT, model, {}, { "x-session-affinity": SESSION });
      expect(headers).not.toContainAnyKeys(["x-grok-conv-id", "x-session-affinity"]);
      expect(body).not.toContainAnyKeys(["prompt_cache_key", "session_id"]);
      expect(text).not.toContain(SESSION);
    }
  });
});
