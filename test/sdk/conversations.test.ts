import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { isObject } from "../../src/lib/json.ts";
import { CASES, type Case } from "./cases.ts";
import { DIALECTS, type DialectName, type Lab, startLab, UPSTREAM_MODEL } from "./lab.ts";
import { askAnthropic, askOpenAI, MODES, type Mode, type Outcome } from "./outcomes.ts";
import { SIGNATURE } from "./replies.ts";

setDefaultTimeout(60_000);

const CLIENTS = ["openai", "anthropic"] as const;
type ClientName = (typeof CLIENTS)[number];

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => {
  for (const vendor of Object.values(lab.vendors)) vendor.reset();
});

const rows = CASES.flatMap((each) =>
  CLIENTS.flatMap((client) =>
    DIALECTS.flatMap((upstream) => MODES.map((mode) => [each.name, client, upstream, mode, each] as const)),
  ),
);

function ask(client: ClientName, upstream: DialectName, mode: Mode, each: Case): Promise<Outcome> {
  const model = lab.model(upstream, each.model);
  return client === "openai"
    ? askOpenAI(lab.openai(), model, each.openai, mode)
    : askAnthropic(lab.anthropic(), model, each.anthropic, mode);
}

/** What must hold of every answer: one call, valid, to the right vendor and model, and the client's own model ID on the answer. */
function expectOneGoodCall(upstream: DialectName, mode: Mode, each: Case): void {
  const asked = lab.vendors[upstream];
  const other = lab.vendors[upstream === "chat" ? "messages" : "chat"];
  expect(asked.faults).toEqual([]);
  expect([asked.upstream.calls.length, asked.upstream.unexpected.length, other.upstream.calls.length]).toEqual([
    1, 0, 0,
  ]);
  const body: unknown = asked.upstream.calls[0]?.json;
  expect(body).toMatchObject({ model: UPSTREAM_MODEL[each.model], ...each.upstream[upstream] });
  const fields = isObject(body) ? Object.keys(body) : [];
  expect((each.upstream.never ?? []).filter((field) => fields.includes(field))).toEqual([]);
  expect(isObject(body) && body["stream"] === true).toBe(mode === "stream");
}

describe("the official SDKs through the executable", () => {
  test.each(rows)("%s: %s SDK, %s vendor, %s", async (_name, client, upstream, mode, each) => {
    lab.vendors[upstream].play(each.reply);
    const outcome = await ask(client, upstream, mode, each);
    expectOneGoodCall(upstream, mode, each);
    const { tools, ...words } = each.outcome;
    expect(outcome).toMatchObject(words);
    if (tools) expect(outcome.tools.map(({ name, input }) => ({ name, input }))).toEqual(tools);
    const ids = outcome.tools.map((tool) => tool.id);
    expect([new Set(ids).size, ids.includes("")]).toEqual([ids.length, false]);
    const finish = client === "openai" ? each.finish.openai : each.finish.anthropic[upstream];
    expect([outcome.finish, outcome.model]).toEqual([finish, lab.model(upstream, each.model)]);
    expect(outcome.stopSequence).toBe(finish === "stop_sequence" ? "END" : null);
    expect(outcome.usage).toEqual({ fresh: 20, cached: 5, output: 12 });
    // Only the vendor can sign its reasoning: across dialects there is no signature to make up.
    if (client === "anthropic" && each.model === "thinker" && upstream === "messages") {
      expect(outcome.signature).toBe(SIGNATURE);
    }
  });

  test("every case was asked in every way", () => {
    expect(rows.length).toBe(CASES.length * 8);
  });

  test("what cannot cross is named; on the diagonal nothing is dropped", async () => {
    const params = {
      messages: [{ role: "user" as const, content: "Hello" }],
      logit_bias: { "50256": -100 },
      frequency_penalty: 0.5,
    };
    for (const upstream of DIALECTS) {
      lab.vendors[upstream].play(CASES[0]!.reply);
      const model = lab.model(upstream, "plain");
      const { response } = await lab
        .openai()
        .chat.completions.create({ ...params, model })
        .withResponse();
      const dropped = response.headers.get("x-sluice-dropped");
      if (upstream === "chat") expect(dropped).toBeNull();
      else expect(dropped?.split(/,\s*/).sort()).toEqual(["frequency_penalty", "logit_bias"]);
      expect(lab.vendors[upstream].faults).toEqual([]);
    }
    expect(lab.vendors.chat.upstream.calls[0]?.json).toMatchObject({ logit_bias: { "50256": -100 } });
  });

  test("both SDKs find the id of a request, list the models, and count tokens", async () => {
    lab.vendors.chat.play(CASES[0]!.reply);
    const model = lab.model("chat", "plain");
    const messages = [{ role: "user" as const, content: "Hello" }];
    const completion = await lab.openai().chat.completions.create({ model, messages });
    const message = await lab.anthropic().messages.create({ model, messages, max_tokens: 5 });
    expect(completion._request_id).toMatch(/^req_/);
    expect(message._request_id).toMatch(/^req_/);
    const [forOpenAI, forAnthropic]: string[][] = [[], []];
    for await (const entry of lab.openai().models.list()) forOpenAI?.push(entry.id);
    for await (const entry of lab.anthropic().models.list()) forAnthropic?.push(entry.id);
    expect(forOpenAI).toContain(model);
    expect(forAnthropic?.toSorted()).toEqual(forOpenAI?.toSorted() ?? []);
  });
});
