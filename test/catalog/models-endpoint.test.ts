import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { Value } from "@sinclair/typebox/value";
import { Elysia } from "elysia";
import OpenAI from "openai";
import { GatewayError } from "../../src/canon/errors.ts";
import { createCatalog } from "../../src/catalog/catalog.ts";
import { MODALITIES } from "../../src/catalog/entry.ts";
import { builtInRows } from "../../src/catalog/rows.ts";
import { modelsRoutes } from "../../src/http/models.ts";
import { ChatModelList, MessagesModelList } from "../../src/wire/models.ts";
import { listed } from "../support/listed.ts";

type Json = Record<string, unknown>;
type ModelJson = Json & { id: string; modality: string };
type ListJson = { object?: string; data: ModelJson[]; has_more?: boolean; first_id?: string; last_id?: string };

const VENDORS = ["sluice", "openai", "anthropic", "openrouter"].map((id) => ({ id, models: "catalog" as const }));

function start() {
  const catalog = createCatalog({
    rows: builtInRows,
    vendors: [...VENDORS, { id: "lab", models: "discover" as const }, { id: "own", models: "any" as const }],
  });
  const app = new Elysia()
    .onError(({ error, set }) => {
      if (!(error instanceof GatewayError)) return;
      set.status = error.code === "invalid_request" ? 400 : 404;
      return { code: error.code, param: error.param };
    })
    .use(modelsRoutes({ catalog }));
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    app.handle(new Request(`http://localhost${path}`, { method, headers }));
  const list = async (path: string, headers: Record<string, string> = {}) => {
    const response = await ask(path, headers);
    expect(response.status).toBe(200);
    return (await response.json()) as ListJson;
  };
  return { app, catalog, ask, list };
}

const AS_MESSAGES = { "anthropic-version": "2023-06-01" };

describe("GET /v1/models", () => {
  test("chat models only, in the chat shape, to anyone, cacheable", async () => {
    const { ask, catalog } = start();
    const response = await ask("/v1/models");
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(response.headers.get("cache-control")).toBe("public, max-age=60");
    expect(response.headers.get("vary")).toBe("anthropic-version, x-api-key");
    const body = (await response.json()) as ListJson;
    expect(Value.Check(ChatModelList(), body)).toBe(true);
    expect(Object.keys(body)).toEqual(["object", "data"]);
    expect(body.data.map((model) => model.id)).toEqual(catalog.list("chat").map((entry) => entry.id));
    expect(new Set(body.data.map((model) => model.modality))).toEqual(new Set(["chat"]));
  });

  test("nothing of the gateway's own knowledge is shown", async () => {
    const { ask } = start();
    const allowed = new Set(
      "id object created display_name owned_by modality access_tier context_length max_output_tokens pricing capabilities reasoning_efforts".split(
        " ",
      ),
    );
    const body = (await (await ask("/v1/models?modality=all")).json()) as ListJson;
    for (const model of body.data) {
      expect(Object.keys(model).filter((key) => !allowed.has(key))).toEqual([]);
      const efforts = model["reasoning_efforts"] as Json | undefined;
      if (efforts) expect(Object.keys(efforts)).toEqual(["levels", "default"]);
    }
  });

  test("prices are those of tokens, with the price of any other unit beside them under its name", async () => {
    const { list } = start();
    const { data } = await list("/v1/models?modality=all");
    for (const { pricing } of data as Json[]) {
      if (pricing !== undefined) expect(pricing).toMatchObject({ currency: "USD", unit: "per_1m_tokens" });
    }
    const priceOf = (id: string) => data.find((model) => model.id === id)?.["pricing"];
    const tokens = { currency: "USD", unit: "per_1m_tokens", input: 0, output: 0 };
    expect(priceOf("sluice/canvas")).toEqual({ ...tokens, per_image: 0.01 });
    expect(priceOf("sluice/sketch")).toEqual({ ...tokens, per_image: 0 });
    expect(priceOf("openai/whisper-1")).toEqual({ ...tokens, per_audio_hour: 0.36 });
  });

  test("every modality, and all of them", async () => {
    const { list } = start();
    let sum = 0;
    for (const modality of MODALITIES) {
      const { data } = await list(`/v1/models?modality=${modality}`);
      for (const model of data) expect(model.modality).toBe(modality);
      sum += data.length;
    }
    const all = await list("/v1/models?modality=all&unknown=1");
    expect(all.data.length).toBe(sum);
    expect(new Set(all.data.map((model) => model.id)).size).toBe(sum);
  });

  test("an unrecognised modality is refused, never read as chat", async () => {
    const { ask } = start();
    for (const query of ["voice", "", "Chat", "chat,image", "chat&modality=image", "all%20"]) {
      for (const headers of [{}, AS_MESSAGES]) {
        const response = await ask(`/v1/models?modality=${query}`, headers);
        expect(response.status).toBe(400);
        expect(await response.json()).toEqual({ code: "invalid_request", param: "modality" });
      }
    }
  });

  test("a version header or an x-api-key gives the messages shape with the same metadata", async () => {
    const { list } = start();
    const chat = await list("/v1/models");
    for (const headers of [AS_MESSAGES, { "x-api-key": "anything" }]) {
      const messages = await list("/v1/models", headers);
      expect(Value.Check(MessagesModelList(), messages)).toBe(true);
      expect(messages.object).toBeUndefined();
      expect(messages).toMatchObject({
        has_more: false,
        first_id: chat.data[0]?.id as string,
        last_id: chat.data.at(-1)?.id as string,
      });
      expect(messages.data.length).toBe(chat.data.length);
      for (const [index, model] of messages.data.entries()) expect(model).toMatchObject(chat.data[index] as ModelJson);
    }
    const bearer = await list("/v1/models", { authorization: "Bearer anything" });
    expect(bearer.object).toBe("list");
  });

  test("pages forwards and backwards over every model once", async () => {
    const { list } = start();
    const whole = (await list("/v1/models", AS_MESSAGES)).data.map((model) => model.id);
    const forwards: string[] = [];
    let cursor = "";
    for (let page = 0; page < whole.length; page++) {
      const body = await list(`/v1/models?limit=7${cursor}`, AS_MESSAGES);
      forwards.push(...body.data.map((model) => model.id));
      if (!body.has_more) break;
      cursor = `&after_id=${encodeURIComponent(body.last_id as string)}`;
    }
    expect(forwards).toEqual(whole);
    const last = whole.at(-1) as string;
    const backwards: string[] = [];
    cursor = last;
    for (let page = 0; page < whole.length; page++) {
      const body = await list(`/v1/models?limit=7&before_id=${encodeURIComponent(cursor)}`, AS_MESSAGES);
      backwards.unshift(...body.data.map((model) => model.id));
      if (!body.has_more) break;
      cursor = body.first_id as string;
    }
    expect([...backwards, last]).toEqual(whole);
    const end = await list(`/v1/models?after_id=${encodeURIComponent(last)}`, AS_MESSAGES);
    expect(end).toEqual({ data: [], has_more: false, first_id: null, last_id: null } as unknown as ListJson);
  });

  test("paging that makes no sense is refused with its param", async () => {
    const { ask } = start();
    const faults = [
      ["limit=0", "limit"],
      ["limit=1001", "limit"],
      ["limit=ten", "limit"],
      ["limit=-1", "limit"],
      ["after_id=no/such", "after_id"],
      ["before_id=no/such", "before_id"],
      ["after_id=sluice/echo&before_id=sluice/echo", "before_id"],
    ];
    for (const [query, param] of faults) {
      const response = await ask(`/v1/models?${query}`, AS_MESSAGES);
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual({ code: "invalid_request", param });
    }
    expect((await ask("/v1/models?limit=0")).status).toBe(200);
  });

  test("a model whose vendor has announced its end says so, and is found by that", async () => {
    const { list } = start();
    const { data } = await list("/v1/models", AS_MESSAGES);
    const stageOf = (id: string) => {
      const { lifecycle, retires_at } = data.find((model) => model.id === id)!;
      return { lifecycle, retires_at };
    };
    expect(stageOf("openai/gpt-5-mini")).toEqual({ lifecycle: "deprecated", retires_at: "2026-12-11T00:00:00Z" });
    expect(stageOf("anthropic/claude-sonnet-4-5").retires_at).toBe("2026-11-30T00:00:00Z");
    expect(stageOf("anthropic/claude-opus-4-5").retires_at).toBe("2027-01-22T00:00:00Z");
    expect(stageOf("openai/gpt-5.4-mini")).toEqual({ lifecycle: "active", retires_at: null });
    const idsOf = async (query: string) =>
      (await list(`/v1/models?${query}`, AS_MESSAGES)).data.map((model) => model.id);
    const ending = await idsOf("lifecycle=deprecated");
    expect(ending).toContain("openai/gpt-5-mini");
    expect(ending).not.toContain("openai/gpt-5.4-mini");
    const active = await idsOf("lifecycle=active");
    expect(active).not.toContain("openai/gpt-5-mini");
    expect((await idsOf("lifecycle[]=deprecated&lifecycle[]=active")).sort()).toEqual(
      data.map((model) => model.id).sort(),
    );
    expect(ending.length + active.length).toBe(data.length);
  });

  test("who asks for retired models only gets none", async () => {
    const { list } = start();
    expect((await list("/v1/models?lifecycle=retired", AS_MESSAGES)).data).toEqual([]);
    expect((await list("/v1/models?lifecycle[]=retired&lifecycle[]=active", AS_MESSAGES)).data).not.toEqual([]);
  });

  test("a prepared answer follows the catalog", async () => {
    const { list, catalog } = start();
    const before = await list("/v1/models");
    catalog.setDiscovered("lab", listed("fresh"));
    for (const headers of [{}, AS_MESSAGES]) {
      const after = await list("/v1/models", headers);
      expect(after.data.map((model) => model.id)).toEqual([...before.data.map((model) => model.id), "lab/fresh"]);
    }
    catalog.setDiscovered("lab", []);
    expect((await list("/v1/models")).data.length).toBe(before.data.length);
  });

  test("other methods are not for this path", async () => {
    const { ask } = start();
    for (const path of ["/v1/models", "/v1/models/sluice/echo"]) {
      const response = await ask(path, {}, "POST");
      expect(response.status).toBe(405);
      expect(response.headers.get("allow")).toBe("GET, HEAD");
      expect((await ask(path, {}, "HEAD")).status).toBe(200);
    }
  });
});

describe("GET /v1/models/{id}", () => {
  test("with a raw or an encoded slash, in both shapes", async () => {
    const { ask } = start();
    for (const path of ["/v1/models/sluice/echo", "/v1/models/sluice%2Fecho", "/v1/models/sluice%2fecho?x=1"]) {
      const chat = await ask(path);
      expect(chat.status).toBe(200);
      expect(await chat.json()).toMatchObject({ id: "sluice/echo", object: "model" });
      expect(await (await ask(path, AS_MESSAGES)).json()).toMatchObject({ id: "sluice/echo", type: "model" });
    }
  });

  test("a name with more slashes, of a vendor whose list is not known yet", async () => {
    const { ask } = start();
    const response = await ask("/v1/models/lab/org%2Fmodel:7b");
    expect(await response.json()).toMatchObject({ id: "lab/org/model:7b", owned_by: "lab" });
  });

  test("unknown, closed, unprefixed and broken ones are not found", async () => {
    const { ask } = start();
    for (const id of ["sluice/none", "deepseek/deepseek-flash", "echo", "sluice%2F", "%E0%A4%A", "sluice%252Fecho"]) {
      const response = await ask(`/v1/models/${id}`);
      expect([id, response.status]).toEqual([id, 404]);
      expect(await response.json()).toEqual({ code: "model_not_found", param: "model" });
    }
  });
});

describe("the official SDKs", () => {
  const fetchOf = (app: { handle(request: Request): Promise<Response> }) =>
    (async (input: string | URL | Request, init?: RequestInit) =>
      app.handle(new Request(String(input), init))) as typeof fetch;

  test("openai lists and retrieves", async () => {
    const { app, catalog } = start();
    const client = new OpenAI({ apiKey: "sk-any", baseURL: "http://localhost/v1", fetch: fetchOf(app), maxRetries: 0 });
    const found: string[] = [];
    for await (const model of client.models.list()) found.push(model.id);
    expect(found).toEqual(catalog.list("chat").map((entry) => entry.id));
    const model = await client.models.retrieve("anthropic/claude-opus-4-6");
    expect(model).toMatchObject({ id: "anthropic/claude-opus-4-6", object: "model", owned_by: "Anthropic" });
    const lost = await client.models.retrieve("anthropic/claude-none").catch((thrown: unknown) => thrown);
    expect(lost).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("anthropic lists in one page, pages where it is told to, and retrieves", async () => {
    const { app, catalog } = start();
    const asked: string[] = [];
    const watch: typeof fetch = Object.assign(
      async (input: string | URL | Request, init?: RequestInit) => {
        asked.push(String(input));
        return fetchOf(app)(input, init);
      },
      { preconnect: () => {} },
    );
    const client = new Anthropic({ apiKey: "any", baseURL: "http://localhost", fetch: watch, maxRetries: 0 });
    const expected = catalog.list("chat").map((entry) => entry.id);
    const first: string[] = [];
    for await (const model of client.models.list()) first.push(model.id);
    expect(first).toEqual(expected);
    expect(asked).toHaveLength(1);
    const paged: string[] = [];
    for await (const model of client.models.list({ limit: 10 })) paged.push(model.id);
    expect(paged).toEqual(expected);
    expect(asked).toHaveLength(1 + Math.ceil(expected.length / 10));
    const model = await client.models.retrieve("anthropic/claude-opus-4-6");
    expect(model).toMatchObject({
      id: "anthropic/claude-opus-4-6",
      type: "model",
      max_input_tokens: 1_000_000,
      max_tokens: 128_000,
      created_at: "1970-01-01T00:00:00Z",
    });
    expect(model.capabilities?.effort.max.supported).toBe(true);
    expect(model.capabilities?.effort.xhigh?.supported).toBe(false);
    expect(model.capabilities?.image_input.supported).toBe(true);
    expect(model.capabilities?.structured_outputs.supported).toBe(true);
    const readers = ["anthropic/claude-opus-4-6", "google/gemini-2.5-pro", "openai/gpt-5"];
    const others = ["deepseek/deepseek-v4-pro", "google/gemma-4-31b-it", "own/tiny"];
    for (const id of [...readers, ...others]) {
      const { capabilities } = await client.models.retrieve(id);
      expect([id, capabilities?.pdf_input.supported]).toEqual([id, readers.includes(id)]);
    }
    const own = await client.models.retrieve("own/tiny");
    expect(own.capabilities?.structured_outputs.supported).toBe(false);
    const lost = await client.models.retrieve("anthropic/claude-none").catch((thrown: unknown) => thrown);
    expect(lost).toBeInstanceOf(Anthropic.NotFoundError);
  });
});
