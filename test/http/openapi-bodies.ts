import fc from "fast-check";
import type { Schema } from "../support/json-schema.ts";
import { FAULTY_MODELS, type FuzzLab, IMAGE_MODELS, SOUND_MODELS, UNSERVED_MODELS } from "./openapi-fuzz-lab.ts";
import { type Operation, operationsOf } from "./openapi-operations.ts";
import { type Hints, slot, validValues } from "./openapi-values.ts";

const SIZES = fc.constantFrom("1024x1024", "auto", "1536x1024", "64x96", "1920x1080");
const PLANS = fc.constantFrom("free", "pro", "power", "local");
const CHAT_MODELS = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...SOUND_MODELS, "sluice/echo") },
  { weight: 2, arbitrary: fc.constantFrom(...FAULTY_MODELS) },
  { weight: 1, arbitrary: fc.constantFrom(...UNSERVED_MODELS) },
);

const NAME = fc.stringMatching(/^[a-z]{1,9}$/);
const SAID = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const chatCall = (id: string, name: string) => ({ id, type: "function", function: { name, arguments: "{}" } });

/** Conversations that make sense: what a schema of single messages cannot see to. */
const CHAT_TURNS = fc
  .array(
    fc.oneof(
      fc.record({ role: fc.constantFrom("system", "user", "developer"), content: SAID }).map((turn) => [turn]),
      SAID.map((text) => [{ role: "user", content: [{ type: "text", text }] }]),
      SAID.map((content) => [{ role: "assistant", content }]),
      fc.tuple(NAME, NAME, SAID).map(([id, name, content]) => [
        { role: "assistant", content: null, tool_calls: [chatCall(id, name)] },
        { role: "tool", tool_call_id: id, content },
      ]),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((turns) => turns.flat());

const CHAT_TOOLS = fc
  .uniqueArray(NAME, { maxLength: 2 })
  .map((names) =>
    names.map((name) => ({ type: "function", function: { name, parameters: { type: "object", properties: {} } } })),
  );

const mostly = (good: fc.Arbitrary<unknown>) => (own: () => fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 3, arbitrary: good }, { weight: 1, arbitrary: own() });
const seldomOf = (values: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 10, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: values });
const seldom = (own: () => fc.Arbitrary<unknown>) => seldomOf(own());

type Hint = fc.Arbitrary<unknown> | ((own: () => fc.Arbitrary<unknown>) => fc.Arbitrary<unknown>);

/** What a schema does not say of a value: which models, accounts, plans and pages there are, and that times pass. */
function hintsOf({ path }: Operation, page: string): Hints {
  const urls = fc.constantFrom(`${page}/page`, `${page}/missing`, "http://127.0.0.1:9/", "http://[::1]/", "ftp://x/");
  const models: Hint = CHAT_MODELS;
  const rpc: Record<string, Hint> = {
    method: fc.constantFrom("initialize", "ping", "tools/list", "tools/call", "notifications/initialized", "x/y"),
    params: fc.oneof(
      fc.record({ name: fc.constantFrom("web_search"), arguments: fc.constant({ query: "news" }) }),
      fc.record({ name: fc.constant("web_fetch"), arguments: fc.record({ urls: fc.array(urls, { maxLength: 3 }) }) }),
      fc.constant({ protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "f", version: "1" } }),
    ),
  };
  const draws = mostly(fc.constantFrom(...IMAGE_MODELS));
  const responses: Record<string, Hint> = {
    model: models,
    input: mostly(SAID),
    previous_response_id: seldom,
    conversation: seldom,
    background: seldom,
  };
  const byPath: Record<string, Record<string, Hint>> = {
    "/mcp/web": rpc,
    "/v1/chat/completions": { model: models, messages: mostly(CHAT_TURNS), tools: mostly(CHAT_TOOLS), n: seldom },
    "/v1/messages": { model: models },
    "/v1/messages/count_tokens": { model: models },
    "/v1/responses": responses,
    "/v1/responses/input_tokens": responses,
    "/v1/images/generations": {
      model: draws,
      prompt: mostly(SAID),
      size: SIZES,
      source_job_id: () => seldomOf(slot("jobs")),
    },
    "/v1/web/search": { search_domain_filter: fc.constantFrom(["example.com"], ["-example.com"], []) },
    "/v1/web/fetch": { urls: fc.array(urls, { minLength: 1, maxLength: 3 }) },
  };
  const admin: Record<string, Hint> = {
    account: slot("accounts"),
    plan: PLANS,
    expires_at: fc.constantFrom("2099-01-31T00:00:00Z", null),
  };
  const hints = byPath[path] ?? admin;
  return (place, own) => {
    const hint = Object.hasOwn(hints, place) ? hints[place] : undefined;
    return typeof hint === "function" ? hint(own) : hint;
  };
}

const TRANSLATED = ["chat/completions", "messages", "responses"] as const;

/** Bodies of an operation that fit the document; undefined where it takes none. */
export function bodiesOf(operation: Operation, { document, page }: Pick<FuzzLab, "document" | "page">) {
  if (operation.path === "/v1/debug/translate") {
    const asked = operationsOf(document);
    const shown = TRANSLATED.map((name) => {
      const inner = asked.find(({ path }) => path === `/v1/${name}`) as Operation;
      const body = validValues(inner.body as Schema, document, hintsOf(inner, page));
      return fc.record({ dialect: fc.constant(name.split("/")[0]), body });
    });
    return fc.oneof(...shown);
  }
  return operation.body && validValues(operation.body, document, hintsOf(operation, page));
}
