import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { isObject } from "../../src/lib/json.ts";
import { CASES, type Case, STOP_CASE, STOP_UPSTREAM } from "./cases.ts";
import { CLIENTS, type ClientName, DIALECTS, type DialectName, type Lab, startLab, upstreamModel } from "./lab.ts";
import { ask, MODES, type Mode } from "./outcomes.ts";
import { COUNTS, GREETING } from "./replies.ts";
import { signatureOf } from "./vendors/messages.ts";
import { encryptedOf } from "./vendors/responses.ts";

setDefaultTimeout(60_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => expect(lab.reset()).toEqual([]));

const pairs = CLIENTS.flatMap((client) => DIALECTS.map((upstream) => [client, upstream] as const));
const rows = CASES.flatMap((each) =>
  pairs
    .filter(([, upstream]) => !each.without?.includes(upstream))
    .flatMap(([client, upstream]) => MODES.map((mode) => [each.name, client, upstream, mode, each] as const)),
);

/** What must hold of every call: one, to the right vendor and model, with what was asked in it. */
function expectOneGoodCall(client: ClientName, upstream: DialectName, mode: Mode, each: Case): void {
  const counts = DIALECTS.map((dialect) => lab.vendors[dialect].upstream.calls.length);
  expect(counts).toEqual(DIALECTS.map((dialect) => (dialect === upstream ? 1 : 0)));
  const { wire, upstream: vendor } = lab.vendors[upstream];
  const [call] = vendor.calls;
  if (!call || !isObject(call.json)) throw new Error("the vendor got no JSON");
  expect(wire.asks(call)).toEqual({ stream: mode === "stream", model: upstreamModel(upstream, each.model) });
  expect(call.json).toMatchObject(each.upstream[upstream]);
  if (each.name === STOP_CASE && client !== "responses") expect(call.json).toMatchObject(STOP_UPSTREAM[upstream]);
  const generation = isObject(call.json["generationConfig"]) ? Object.keys(call.json["generationConfig"]) : [];
  const fields = [...Object.keys(call.json), ...generation];
  expect((each.upstream.never ?? []).filter((field) => fields.includes(field))).toEqual([]);
}

/** Only a vendor of the messages dialect says that it was a stop sequence, and only its own clients have a word for it. */
function finishOf(client: ClientName, upstream: DialectName, each: Case): string {
  const tells = each.name === STOP_CASE && client === "messages" && upstream === "messages";
  return tells ? "stop_sequence" : each.finish[client];
}

describe("the official SDKs through the executable", () => {
  test.each(rows)("%s: %s SDK, %s vendor, %s", async (_name, client, upstream, mode, each) => {
    lab.vendors[upstream].play(each.reply);
    const outcome = await ask(lab, client, lab.model(upstream, each.model), each.requests, mode);
    expectOneGoodCall(client, upstream, mode, each);
    const { tools, ...words } = each.outcome;
    expect(outcome).toMatchObject(words);
    if (tools) expect(outcome.tools.map(({ name, input }) => ({ name, input }))).toEqual(tools);
    const ids = outcome.tools.map((tool) => tool.id);
    expect([new Set(ids).size, ids.includes("")]).toEqual([ids.length, false]);
    const finish = finishOf(client, upstream, each);
    expect([outcome.finish, outcome.model]).toEqual([finish, lab.model(upstream, each.model)]);
    expect(outcome.stopSequence).toBe(finish === "stop_sequence" ? "END" : null);
    const { fresh, cached, output } = COUNTS;
    expect(outcome.usage).toEqual({ fresh, cached, output });
    // On the diagonal a vendor's proof of its reasoning comes through as it is.
    if (each.model === "thinker" && client === upstream && client !== "chat") {
      expect(outcome.proof).toBe(client === "messages" ? signatureOf("sum") : encryptedOf("sum"));
    }
  });

  test("every case was asked in every way", () => {
    const left = CASES.reduce((sum, { without }) => sum + (without?.length ?? 0), 0);
    expect(rows.length).toBe((CASES.length * DIALECTS.length - left) * CLIENTS.length * MODES.length);
    expect(left).toBe(1);
  });

  test.each(DIALECTS)("what cannot cross is named; on the diagonal nothing is dropped: %s vendor", async (upstream) => {
    const params = { messages: [{ role: "user" as const, content: "Hello" }], logit_bias: { "50256": -100 } };
    lab.vendors[upstream].play(GREETING);
    const model = lab.model(upstream, "plain");
    const { response } = await lab
      .openai()
      .chat.completions.create({ ...params, model })
      .withResponse();
    expect(response.headers.get("x-sluice-dropped")).toBe(upstream === "chat" ? null : "logit_bias");
    const body = lab.vendors[upstream].upstream.calls[0]?.json;
    expect(isObject(body) && "logit_bias" in body).toBe(upstream === "chat");
  });

  test("both SDKs find the id of a request, list the models, and count tokens", async () => {
    lab.vendors.chat.play(GREETING);
    lab.vendors.responses.play(GREETING);
    const model = lab.model("chat", "plain");
    const messages = [{ role: "user" as const, content: "Hello" }];
    const completion = await lab.openai().chat.completions.create({ model, messages });
    const response = await lab.openai().responses.create({ model: lab.model("responses", "plain"), input: "Hello" });
    const message = await lab.anthropic().messages.create({ model, messages, max_tokens: 5 });
    for (const { _request_id: id } of [completion, response, message]) expect(id).toMatch(/^req_/);
    const [forOpenAI, forAnthropic]: string[][] = [[], []];
    for await (const entry of lab.openai().models.list()) forOpenAI?.push(entry.id);
    for await (const entry of lab.anthropic().models.list()) forAnthropic?.push(entry.id);
    expect(forOpenAI).toContain(model);
    expect(forAnthropic?.toSorted()).toEqual(forOpenAI?.toSorted() ?? []);
    const counted = await lab.anthropic().messages.countTokens({ model, messages });
    expect(counted.input_tokens).toBeGreaterThan(0);
  });
});
