import { describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { createCatalog, requirePrefix, type VendorPolicy } from "../../src/catalog/catalog.ts";
import { MODALITIES, toChatEntry } from "../../src/catalog/entry.ts";
import { builtInRows, type CatalogRow } from "../../src/catalog/rows.ts";
import { refuseModel } from "../../src/relay/find-entry.ts";
import { faultOf } from "../support/fault.ts";
import { listed } from "../support/listed.ts";

const ROWS: readonly CatalogRow[] = [
  {
    id: "big/one",
    display_name: "One",
    context_length: 1000,
    pricing: { currency: "USD", unit: "per_1m_tokens", input: 1, output: 2, cache_read: 0.1 },
    access_tier: "paid",
    capabilities: { vision: true, tools: true, reasoning: true },
    reasoning_efforts: { levels: ["low", "high"], default: "low" },
    reasoning: { form: "adaptive-effort", omitted: "off" },
    routes: [
      { vendor: "big", model: "one-v1" },
      { vendor: "hub", model: "big/one", form: "reasoning-object" },
    ],
  },
  { id: "small/two", routes: [{ vendor: "small", model: "two" }] },
  { id: "far/three", routes: [{ vendor: "hub", model: "far/three" }] },
  { id: "big/paint", modality: "image", routes: [{ vendor: "big", model: "paint" }] },
];

const open = (vendors: readonly VendorPolicy[], overrides: readonly CatalogRow[] = []) =>
  createCatalog({ rows: ROWS, overrides, vendors });
const ids = (entries: readonly { id: string }[]) => entries.map((entry) => entry.id);

describe("finding a model", () => {
  test("only vendors that are switched on are routes, in the row's order", () => {
    const both = open([
      { id: "hub", models: "catalog" },
      { id: "big", models: "catalog" },
    ]);
    expect(both.find("big/one")?.routes.map((route) => route.vendor)).toEqual(["big", "hub"]);
    const one = open([{ id: "hub", models: "catalog" }]);
    expect(one.find("big/one")?.routes).toEqual([{ vendor: "hub", model: "big/one", form: "reasoning-object" }]);
    expect(one.find("small/two")).toBeUndefined();
  });

  test("a row is found by its own ID whatever vendor serves it, and by no other spelling", () => {
    const catalog = open([{ id: "hub", models: "catalog" }]);
    expect(catalog.find("far/three")?.id).toBe("far/three");
    for (const id of ["Far/three", "far/three ", "three", "/three", "far/", "hub/far/three", "", "far/THREE"]) {
      expect(catalog.find(id)).toBeUndefined();
    }
  });

  test("a vendor found after the start opens its routes, and does not replace one that is on", () => {
    const catalog = open([{ id: "big", models: "catalog" }]);
    const { version } = catalog;
    expect(ids(catalog.list("chat"))).toEqual(["big/one"]);
    catalog.addVendor({ id: "small", models: "catalog" });
    expect(ids(catalog.list("chat"))).toEqual(["big/one", "small/two"]);
    expect(catalog.version).toBe(version + 1);
    catalog.addVendor({ id: "big", models: "any" });
    expect(catalog.find("big/whatever")).toBeUndefined();
    expect(catalog.find("far/three")).toBeUndefined();
    expect(catalog.version).toBe(version + 1);
    catalog.addVendor({ id: "lab", models: "discover" });
    catalog.setDiscovered("lab", listed("tiny"));
    expect(catalog.find("lab/tiny")?.routes).toEqual([{ vendor: "lab", model: "tiny" }]);
    expect(catalog.find("lab/other")).toBeUndefined();
  });

  test("without vendors there is nothing", () => {
    const catalog = open([]);
    expect(catalog.find("big/one")).toBeUndefined();
    expect(catalog.list("all")).toEqual([]);
  });

  test("a vendor that takes any name serves unknown ones uncharted, under the name behind its prefix", () => {
    const catalog = open([{ id: "lab", models: "any" }]);
    const entry = catalog.find("lab/org/new:7b");
    expect(entry).toMatchObject({ id: "lab/org/new:7b", uncharted: true, modality: "chat" });
    expect(entry?.routes).toEqual([{ vendor: "lab", model: "org/new:7b" }]);
    expect(entry?.pricing).toBeUndefined();
    expect(catalog.find("lab/My Model (v2).gguf")?.routes).toEqual([{ vendor: "lab", model: "My Model (v2).gguf" }]);
    for (const id of [
      "lab/",
      "lab",
      "labx/new",
      "lab/ blank",
      "lab/blank ",
      "lab/a\tb",
      "lab/a\u00a0b",
      "lab/\u009b31m",
      "lab/\u202egnp",
      "lab/\u2066x",
      "lab/a\nb",
      "lab/\ud800",
      `lab/${"x".repeat(300)}`,
    ]) {
      expect(catalog.find(id)).toBeUndefined();
    }
    expect(catalog.list("all")).toEqual([]);
  });

  test("behind such a prefix a known ID keeps the facts of its row, though another vendor was to serve it", () => {
    const catalog = open([{ id: "far", models: "any" }], [{ id: "far/three", context_length: 77 }]);
    expect(catalog.find("far/three")).toMatchObject({
      contextLength: 77,
      routes: [{ vendor: "far", model: "three" }],
    });
  });

  test("a vendor of the catalog serves no name that no row gives it", () => {
    expect(open([{ id: "big", models: "catalog" }]).find("big/other")).toBeUndefined();
  });

  test("a vendor's list is exactly its models: others of its rows are closed, new ones are listed", () => {
    const catalog = open([{ id: "big", models: ["one-v1", "extra"] }]);
    expect(ids(catalog.list("all"))).toEqual(["big/one", "big/one-v1", "big/extra"]);
    expect(catalog.find("big/paint")).toBeUndefined();
    expect(catalog.find("big/other")).toBeUndefined();
    expect(catalog.find("big/extra")?.uncharted).toBe(true);
  });
});

describe("discovery", () => {
  test("until a vendor's list is known any name passes, then only those of the list", () => {
    const catalog = open([{ id: "lab", models: "discover" }]);
    expect(catalog.find("lab/anything")?.uncharted).toBe(true);
    expect(catalog.list("all")).toEqual([]);
    catalog.setDiscovered("lab", listed("b", "a", "a", "", "with blank", " ", "a\tb", "\u009b31m", "\u202egnp"));
    expect(ids(catalog.list("chat"))).toEqual(["lab/b", "lab/a", "lab/with blank"]);
    expect(catalog.find("lab/anything")).toBeUndefined();
    catalog.setDiscovered("lab", []);
    expect(catalog.list("all")).toEqual([]);
    expect(catalog.find("lab/a")).toBeUndefined();
  });

  test("a name that a vendor's list has in other letters or with the tag latest is that model, as the list has it", () => {
    const catalog = open([
      { id: "lab", models: "discover" },
      { id: "fixed", models: ["Tiny:latest"] },
    ]);
    catalog.setDiscovered("lab", [
      { name: "Tiny:latest", contextLength: 7 },
      ...listed("hf.co/Some/Model-GGUF:Q4_K_M", "Twin", "twin", "paint:latest"),
    ]);
    for (const id of ["lab/Tiny", "lab/tiny", "lab/TINY:LATEST"]) {
      const routes = [{ vendor: "lab", model: "Tiny:latest" }];
      expect(catalog.find(id)).toMatchObject({ id, contextLength: 7, routes });
    }
    expect(catalog.find("lab/hf.co/some/model-gguf:q4_k_m")?.routes[0]?.model).toBe("hf.co/Some/Model-GGUF:Q4_K_M");
    // What is listed is found as it is written.
    for (const name of ["Twin", "twin"]) expect(catalog.find(`lab/${name}`)?.routes[0]?.model).toBe(name);
    // Another tag is another model, and an operator's list is exactly what he wrote.
    for (const id of ["lab/hf.co/Some/Model-GGUF", "lab/Tiny:1b", "Lab/Tiny", "lab/", "fixed/Tiny"])
      expect(catalog.find(id)).toBeUndefined();
    expect(ids(catalog.list("all"))).not.toContain("lab/Tiny");
    catalog.setDiscovered("lab", listed("other"));
    expect(catalog.find("lab/Tiny")).toBeUndefined();
  });

  test("models of a tag that the vendor's list may lack pass, and no others", () => {
    const catalog = open([
      { id: "lab", models: "discover", unlistedTag: "cloud" },
      { id: "other", models: "discover" },
    ]);
    catalog.setDiscovered("lab", listed("here"));
    catalog.setDiscovered("other", listed("here"));
    for (const name of ["far:cloud", "far:120b-cloud", "some/far:Cloud"])
      expect(catalog.find(`lab/${name}`)).toMatchObject({ uncharted: true, routes: [{ vendor: "lab", model: name }] });
    for (const id of ["lab/cloud", "lab/far-cloud", "lab/far:x/y-cloud", "lab/far:cloudy", "other/far:cloud"])
      expect(catalog.find(id)).toBeUndefined();
    catalog.replace({ rows: [], vendors: [{ id: "lab", models: "discover" }] });
    expect(catalog.find("lab/far:cloud")).toBeUndefined();
  });

  test("a discovered name takes the facts of the row of its ID", () => {
    const catalog = open([{ id: "small", models: "discover" }], [{ id: "small/two", context_length: 5 }]);
    catalog.setDiscovered("small", listed("two", "three"));
    expect(catalog.find("small/two")?.contextLength).toBe(5);
    expect(catalog.find("small/three")).toMatchObject({ uncharted: true });
    expect(ids(catalog.list("all"))).toEqual(["small/two", "small/three"]);
  });

  test("a discovered name takes the facts of the row that this vendor serves under it, and its own way there alone", () => {
    const catalog = open([
      { id: "hub", models: "discover" },
      { id: "big", models: "catalog" },
    ]);
    catalog.setDiscovered("hub", listed("big/one", "big/one:fast", "big/paint"));
    const one = catalog.find("big/one");
    expect(catalog.find("hub/big/one")).toEqual({
      ...(one as NonNullable<typeof one>),
      id: "hub/big/one",
      routes: [{ vendor: "hub", model: "big/one", form: "reasoning-object" }],
    });
    // Another name is another model, and so is the same one at another vendor.
    for (const id of ["hub/big/one:fast", "hub/big/paint"]) expect(catalog.find(id)).toMatchObject({ uncharted: true });
    // What the configuration says of the row is a fact of it.
    const priced = open([{ id: "hub", models: "any" }], [{ id: "big/one", context_length: 7 }]);
    expect(priced.find("hub/big/one")).toMatchObject({ contextLength: 7, reasoning: { levels: ["low", "high"] } });
  });

  test("a vendor's model that talks is no model for images, though the row it is served by is one", () => {
    const picture = { id: "big/paint", routes: [{ vendor: "hub", model: "big/paint" }] };
    const catalog = open([{ id: "hub", models: "discover" }], [picture]);
    catalog.setDiscovered("hub", listed("big/paint"));
    expect(catalog.find("hub/big/paint")).toMatchObject({ modality: "chat", uncharted: true });
    const drawing = open([{ id: "hub", models: "any", modality: "image" }], [picture]);
    expect(drawing.find("hub/big/paint")).toMatchObject({ modality: "image", displayName: "paint" });
  });

  test("a name that no row has takes what the vendor's list says of it, and what that leaves open is not known", () => {
    const catalog = open([{ id: "hub", models: "discover" }]);
    const form = "reasoning-object";
    const models = [
      { name: "x", contextLength: 9, tools: true, vision: true, reasoning: form },
      { name: "y" },
    ] as const;
    catalog.setDiscovered("hub", models);
    expect(catalog.find("hub/x")).toMatchObject({
      contextLength: 9,
      capabilities: { tools: true, vision: true, reasoning: true },
      reasoning: { form, levels: ["none", "minimal", "low", "medium", "high", "xhigh"], default: "medium" },
    });
    expect(catalog.find("hub/x")).not.toContainKey("uncharted");
    const unknown = catalog.find("hub/y");
    expect(unknown).toMatchObject({ uncharted: true });
    for (const field of ["textOnly", "contextLength", "pricing"]) expect(unknown).not.toContainKey(field);
    // What it says may change.
    const { version } = catalog;
    catalog.setDiscovered("hub", [{ name: "x" }, { name: "y" }]);
    expect([catalog.version, catalog.find("hub/x")?.uncharted]).toEqual([version + 1, true]);
  });

  test("rows that route to a discovering vendor stay, also where its list does not name them", () => {
    const catalog = open([{ id: "hub", models: "discover" }]);
    catalog.setDiscovered("hub", listed("x"));
    expect(ids(catalog.list("chat"))).toEqual(["big/one", "far/three", "hub/x"]);
  });

  test("other vendors cannot be given a list", () => {
    const catalog = open([{ id: "big", models: "catalog" }]);
    catalog.setDiscovered("big", listed("new"));
    catalog.setDiscovered("nobody", listed("new"));
    expect(catalog.find("big/new")).toBeUndefined();
    expect(catalog.find("nobody/new")).toBeUndefined();
  });

  test("the version and the lists change with the catalog, and not with an unchanged list", () => {
    const catalog = open([{ id: "lab", models: "discover" }]);
    catalog.setDiscovered("lab", listed("a"));
    const { version } = catalog;
    const list = catalog.list("chat");
    catalog.setDiscovered("lab", listed("a"));
    expect(catalog.version).toBe(version);
    expect(catalog.list("chat")).toBe(list);
    catalog.setDiscovered("lab", listed("a", "b"));
    expect(catalog.version).toBeGreaterThan(version);
    expect(catalog.list("chat")).not.toBe(list);
  });
});

describe("rows of the configuration", () => {
  test("change the fields they give and no others", () => {
    const catalog = open(
      [{ id: "big", models: "catalog" }],
      [{ id: "big/one", context_length: 9, capabilities: { vision: false }, pricing: { input: 3, output: 4 } }],
    );
    expect(catalog.find("big/one")).toMatchObject({
      displayName: "One",
      contextLength: 9,
      capabilities: { vision: false, tools: true, reasoning: true },
      pricing: { currency: "USD", unit: "per_1m_tokens", input: 3, output: 4 },
      reasoning: { levels: ["low", "high"], form: "adaptive-effort", omitted: "off" },
    });
    expect(catalog.find("big/one")?.pricing?.cache_read).toBeUndefined();
    expect(ids(catalog.list("chat"))).toEqual(["big/one"]);
  });

  test("say where a model is had, and then nothing of when another vendor ends it", () => {
    const end = "2026-12-11";
    const rows = [{ id: "big/old", retires_at: end, routes: [{ vendor: "big", model: "old" }] }];
    const vendors = [{ id: "big", models: "catalog" as const }];
    const found = (override: object) =>
      createCatalog({ rows, overrides: [{ id: "big/old", ...override }], vendors }).find("big/old");
    expect(found({ context_length: 9 })?.retiresAt).toBe(end);
    expect(found({ routes: [{ vendor: "big", model: "mine" }] })?.retiresAt).toBeUndefined();
  });

  test("make new models, routed to the vendor of their prefix unless they say otherwise", () => {
    const catalog = open(
      [
        { id: "lab", models: "catalog" },
        { id: "hub", models: "catalog" },
      ],
      [
        { id: "lab/tiny", pricing: "free" },
        { id: "lab/dear", pricing: { input: 1, output: 40 } },
        { id: "lab/half", pricing: { input: 0, output: 5 } },
        {
          id: "lab/elsewhere",
          routes: [{ vendor: "hub", model: "lab/e" }],
          reasoning_efforts: { levels: ["none", "high"], default: "high" },
        },
      ],
    );
    expect(catalog.find("lab/tiny")).toMatchObject({
      displayName: "tiny",
      ownedBy: "lab",
      accessTier: "free",
      uncharted: true,
      pricing: { input: 0, output: 0 },
      routes: [{ vendor: "lab", model: "tiny" }],
    });
    expect(catalog.find("lab/dear")?.accessTier).toBe("paid");
    expect(catalog.find("lab/half")?.accessTier).toBe("paid");
    expect(catalog.find("lab/elsewhere")).toMatchObject({
      accessTier: "paid",
      reasoning: { form: "effort" },
      routes: [{ vendor: "hub", model: "lab/e" }],
    });
    expect(catalog.find("lab/elsewhere")?.uncharted).toBeUndefined();
    expect(ids(catalog.list("chat")).slice(-4)).toEqual(["lab/tiny", "lab/dear", "lab/half", "lab/elsewhere"]);
  });
});

describe("the whole of it", () => {
  test("all() names what would switch a closed model on", () => {
    const catalog = open([{ id: "big", models: "catalog" }]);
    const states = catalog.all().map((listing) => [listing.entry.id, listing.routable, listing.switchedOnBy]);
    expect(states).toEqual([
      ["big/one", true, []],
      ["small/two", false, ["small"]],
      ["far/three", false, ["hub"]],
      ["big/paint", true, []],
    ]);
  });

  test("a model that is refused is looked up by its ID: nobody goes through all of them for it", () => {
    const catalog = open([{ id: "big", models: "catalog" }]);
    for (const listing of catalog.all()) expect(catalog.listing(listing.entry.id)).toEqual(listing);
    expect(catalog.listing("nobody/none")).toBeUndefined();
    catalog.all = () => {
      throw new Error("all models were asked for");
    };
    const refusal = (id: string) => faultOf(() => refuseModel(catalog, id, "GET /v1/models")).code;
    expect(["nobody/none", "small/two", "none"].map(refusal)).toEqual([
      "model_not_found",
      "vendor_not_configured",
      "model_not_found",
    ]);
  });

  test("lists are by modality", () => {
    const catalog = open([{ id: "big", models: "catalog" }]);
    expect(ids(catalog.list("image"))).toEqual(["big/paint"]);
    expect(ids(catalog.list("chat"))).toEqual(["big/one"]);
    expect(ids(catalog.list("all"))).toEqual(["big/one", "big/paint"]);
    expect(catalog.list("ocr")).toEqual([]);
    expect(catalog.list("chat")).toBe(catalog.list("chat"));
  });

  test("an ID needs its prefix", () => {
    for (const id of ["model", "", "/model", "vendor/"]) {
      expect(() => requirePrefix(id)).toThrow(GatewayError);
    }
    expect(() => requirePrefix("vendor/model/x")).not.toThrow();
  });
});

describe("the built-in rows", () => {
  const VENDORS = [
    ..."openai anthropic google openrouter mistral groq deepseek xai together fireworks cerebras".split(" "),
    ..."moonshotai zai qwen perplexity nvidia bfl fal sluice".split(" "),
  ];

  test("every row is whole: one ID, known words, sound figures, levels that hold their default", () => {
    const seen = new Set<string>();
    for (const row of builtInRows) {
      expect(seen.has(row.id)).toBe(false);
      seen.add(row.id);
      expect(() => requirePrefix(row.id)).not.toThrow();
      expect(MODALITIES).toContain(row.modality as "chat");
      expect(["free", "paid", "premium"]).toContain(row.access_tier as string);
      expect(Object.keys(row).filter((key) => key.startsWith("_"))).toEqual([]);
      for (const figure of [row.context_length, row.max_output_tokens]) {
        if (figure !== undefined) expect(Number.isInteger(figure) && figure > 0).toBe(true);
      }
      if (row.reasoning_efforts) {
        expect(row.reasoning_efforts.levels).toContain(row.reasoning_efforts.default);
        expect(row.capabilities?.reasoning).toBe(true);
      }
      expect(row.reasoning === undefined).toBe(row.reasoning_efforts === undefined);
      if (row.retires_at) expect(new Date(row.retires_at).toISOString()).toBe(`${row.retires_at}T00:00:00.000Z`);
      for (const route of row.routes ?? []) expect(VENDORS).toContain(route.vendor);
    }
    expect(seen.size).toBeGreaterThan(150);
  });

  test("every chat model can be reached, and each vendor's own first through that vendor", () => {
    for (const row of builtInRows.filter((candidate) => candidate.modality === "chat")) {
      expect([row.id, (row.routes ?? []).length > 0]).toEqual([row.id, true]);
    }
    const catalog = createCatalog({ rows: builtInRows, vendors: [{ id: "anthropic", models: "catalog" }] });
    const own = builtInRows.filter((row) => row.id.startsWith("anthropic/"));
    expect(ids(catalog.list("all"))).toEqual(ids(own));
    for (const entry of catalog.list("all")) expect(entry.routes).toHaveLength(1);
  });

  test("a model that a cloud serves for its maker has what is known of it, but no price; a row of the configuration is laid over that", () => {
    const pricing = { input: 1, output: 2 };
    const catalog = createCatalog({
      rows: builtInRows,
      overrides: [{ id: "cloud/eu.anthropic.claude-opus-4-5-20251101-v1:0", pricing }],
      vendors: [{ id: "cloud", models: "any", modelsOf: "anthropic" }],
    });
    const whole = createCatalog({ rows: builtInRows, vendors: [{ id: "anthropic", models: "catalog" }] });
    const own = whole.find("anthropic/claude-opus-4-5");
    const { pricing: _price, retiresAt: _end, ...facts } = own!;
    for (const name of ["claude-opus-4-5", "claude-opus-4-5@20251101", "anthropic.claude-opus-4-5-20251101-v1:0"]) {
      const id = `cloud/${name}`;
      expect(catalog.find(id)).toEqual({ ...facts, id, routes: [{ vendor: "cloud", model: name }] });
    }
    const priced = catalog.find("cloud/eu.anthropic.claude-opus-4-5-20251101-v1:0");
    expect(priced).toMatchObject({ pricing, contextLength: own?.contextLength, reasoning: own?.reasoning });
    for (const name of ["claude-opus-9", "constructor", "gemini-3.8-flash"]) {
      expect(catalog.find(`cloud/${name}`)?.uncharted).toBe(true);
    }
  });

  test("every row says its tier, and all follow one rule: free at zero, premium at 40 USD and above, else paid", () => {
    for (const { id, pricing, access_tier: tier, modality } of builtInRows) {
      if (modality !== "chat" || typeof pricing !== "object") continue;
      const output = pricing.output ?? 0;
      const expected = output === 0 ? "free" : output >= 40 ? "premium" : "paid";
      expect([id, tier]).toEqual([id, expected]);
    }
  });

  test("with nothing configured, the four models of the house are there", () => {
    const catalog = createCatalog({ rows: builtInRows, vendors: [{ id: "sluice", models: "catalog" }] });
    expect(ids(catalog.list("chat"))).toEqual(["sluice/echo", "sluice/script"]);
    expect(ids(catalog.list("image"))).toEqual(["sluice/canvas", "sluice/sketch"]);
    const echo = catalog.find("sluice/echo");
    expect(echo && toChatEntry(echo)).toEqual({
      id: "sluice/echo",
      object: "model",
      created: 0,
      display_name: "Echo",
      owned_by: "Sluice",
      modality: "chat",
      access_tier: "free",
      context_length: 128000,
      max_output_tokens: 128000,
      pricing: { currency: "USD", unit: "per_1m_tokens", input: 0, output: 0 },
      capabilities: { vision: true, tools: true, reasoning: true },
      reasoning_efforts: { levels: ["low", "medium", "high"], default: "low" },
    });
  });
});
