import { describe, expect, test } from "bun:test";
import { localCandidates, resolveVendors } from "../../src/config/discover.ts";
import type { ModelSetting, VendorSetting } from "../../src/config/schema.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { registry } from "../../src/vendors/registry.ts";

function resolve(environment: Record<string, string>, rows: VendorSetting[] = [], models: ModelSetting[] = []) {
  return resolveVendors({ registry, fromEnvironment, environment, rows, models });
}

describe("vendors that are on", () => {
  test("by their keys in the environment, and no others", () => {
    const { vendors, warnings } = resolve({ OPENAI_API_KEY: "sk-1", GROQ_API_KEY: " ", XAI_API_KEY: "x-1" });
    expect(vendors.map((vendor) => [vendor.id, vendor.apiKey])).toEqual([
      ["openai", "sk-1"],
      ["xai", "x-1"],
    ]);
    expect(warnings).toEqual([]);
  });

  test("a row changes only the fields it gives", () => {
    const [before] = resolve({ ANTHROPIC_API_KEY: "a-1" }).vendors;
    const row: VendorSetting = {
      id: "anthropic",
      base_url: "http://127.0.0.1:9/x",
      headers: { "X-Team": "7" },
      quirks: { unclamped_temperature: true },
    };
    const [after] = resolve({ ANTHROPIC_API_KEY: "a-1" }, [row]).vendors;
    expect(after).toEqual({
      ...before!,
      baseUrl: "http://127.0.0.1:9/x",
      headers: { "anthropic-version": "2023-06-01", "x-team": "7" },
      quirks: { ...before!.quirks, unclampedTemperature: true },
    });
  });

  test("a built-in vendor that a row has speak the messages dialect is told its version, as one of the file's own is", () => {
    const base_url = "https://api.deepseek.com/anthropic";
    const rows: VendorSetting[] = [
      { id: "deepseek", api_key: "k", dialect: "messages", base_url, headers: { "X-Team": "7" } },
      { id: "groq", api_key: "k", dialect: "messages", base_url },
      { id: "lab", api_key: "k", dialect: "messages", base_url },
      { id: "bedrock", api_key: "k", dialect: "messages", base_url },
    ];
    expect(resolve({}, rows).vendors.map(({ id, headers }) => [id, headers])).toEqual([
      ["deepseek", { "anthropic-version": "2023-06-01", "x-team": "7" }],
      ["groq", { "anthropic-version": "2023-06-01" }],
      ["lab", { "anthropic-version": "2023-06-01" }],
      ["bedrock", undefined],
    ]);
  });

  test("a row's key wins over the environment's and switches a vendor on by itself", () => {
    expect(resolve({ OPENAI_API_KEY: "env" }, [{ id: "openai", api_key: "row" }]).vendors[0]?.apiKey).toBe("row");
    expect(resolve({}, [{ id: "openai", api_key: "row" }]).vendors).toMatchObject([{ id: "openai", apiKey: "row" }]);
  });

  test("a variable is told as the place of a key only where the key is the variable's", () => {
    const place = (row: Partial<VendorSetting>) =>
      resolve({ OPENAI_API_KEY: "env" }, [{ id: "openai", ...row }]).vendors.map(({ env }) => env);
    expect(place({ base_url: "http://proxy/v1" })).toEqual(["OPENAI_API_KEY"]);
    expect(place({ api_key: "env" })).toEqual(["OPENAI_API_KEY"]);
    expect(place({ api_key: "row" })).toStrictEqual([undefined]);
    expect(place({ api_keys: ["row", "env"] })).toStrictEqual([undefined]);
  });

  test("a registry vendor without a key stays off and says so; with auth none it is on", () => {
    const off = resolve({}, [{ id: "openai", base_url: "http://proxy/v1" }]);
    expect(off.vendors).toEqual([]);
    expect(off.warnings).toEqual([
      "Vendor openai stays off: it needs an api_key or the variable OPENAI_API_KEY (or auth: none).",
    ]);
    const on = resolve({}, [{ id: "openai", base_url: "http://proxy/v1", auth: "none" }]);
    expect(on.vendors).toMatchObject([{ id: "openai", auth: "none", baseUrl: "http://proxy/v1" }]);
    expect(on.warnings).toEqual([]);
  });

  test("azure takes its address from a variable or a row", () => {
    const environment = { AZURE_OPENAI_ENDPOINT: "https://a.example/", AZURE_OPENAI_API_VERSION: "preview" };
    expect(resolve(environment, [{ id: "azure", api_key: "k" }]).vendors).toMatchObject([
      { baseUrl: "https://a.example/openai/v1", query: "api-version=preview", apiKey: "k" },
    ]);
    const byRow = resolve({ AZURE_OPENAI_API_KEY: "k" }, [
      { id: "azure", api_key: "k", base_url: "https://b/openai/v1" },
    ]);
    expect(byRow.vendors).toMatchObject([{ baseUrl: "https://b/openai/v1", apiKey: "k" }]);
    expect(byRow.vendors[0]).not.toHaveProperty("query");
    expect(byRow.vendors[0]).not.toHaveProperty("otherQuery");
    const off = resolve({}, [{ id: "azure", api_key: "k" }]);
    expect(off.vendors).toEqual([]);
    expect(off.warnings).toEqual(["Vendor azure stays off: it needs a base_url, or the variables for it."]);
    // Said once, though the key's variable is set as well.
    expect(resolve({ AZURE_OPENAI_API_KEY: "k" }, [{ id: "azure" }]).warnings).toEqual(off.warnings);
  });

  test("Bedrock's region is the one of Amazon's newer variable, else of the older one", () => {
    const at = (regions: Record<string, string>) => resolve({ AWS_BEARER_TOKEN_BEDROCK: "k", ...regions });
    const [vendor, ...more] = at({ AWS_DEFAULT_REGION: "eu-west-1" }).vendors;
    expect([vendor, more]).toMatchObject([
      { baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com", region: "eu-west-1" },
      [],
    ]);
    expect(vendor).not.toHaveProperty("standIns");
    const both = { AWS_REGION: "us-east-1", AWS_DEFAULT_REGION: "eu-west-1" };
    expect(at(both)).toMatchObject({ vendors: [{ region: "us-east-1" }], warnings: [] });
    expect(at({ AWS_REGION: " ", AWS_DEFAULT_REGION: "eu-west-1" })).toMatchObject({
      ...{ vendors: [{ region: "eu-west-1" }], warnings: [] },
    });
    expect(at({ AWS_DEFAULT_REGION: " " }).warnings).toEqual([
      "Vendor bedrock stays off: AWS_BEARER_TOKEN_BEDROCK is set, but not AWS_REGION.",
    ]);
  });

  test("a key whose vendor lacks another variable, or has a wrong one, is told and not passed over", () => {
    const off = (environment: Record<string, string>) => {
      const { vendors, warnings } = resolve(environment);
      expect(vendors).toEqual([]);
      return warnings;
    };
    expect(off({ AZURE_OPENAI_API_KEY: "k" })).toEqual([
      "Vendor azure stays off: AZURE_OPENAI_API_KEY is set, but not AZURE_OPENAI_ENDPOINT.",
    ]);
    expect(off({ AWS_BEARER_TOKEN_BEDROCK: "k", AWS_REGION: " " })).toEqual([
      "Vendor bedrock stays off: AWS_BEARER_TOKEN_BEDROCK is set, but not AWS_REGION.",
    ]);
    // These may be there for other programs.
    expect(off({ AWS_ACCESS_KEY_ID: "a", GOOGLE_APPLICATION_CREDENTIALS: "/a" })).toEqual([]);
    for (const endpoint of ["my.openai.example", "https://a.example/openai?api-version=1"]) {
      expect(off({ AZURE_OPENAI_API_KEY: "k", AZURE_OPENAI_ENDPOINT: endpoint })).toEqual([
        "Vendor azure stays off: of AZURE_OPENAI_ENDPOINT expected a URL beginning with http:// or https://, without user name, query or fragment, found another text.",
      ]);
    }
    expect(off({ AWS_BEARER_TOKEN_BEDROCK: "k", AWS_REGION: "US East (Ohio)" })).toEqual([
      "Vendor bedrock stays off: of AWS_REGION expected letters, digits and dashes alone, found another text.",
    ]);
    for (const key of ["sk 1", "sk-\n1", "“sk-1”", '"sk-1"', "'sk-1'", 'sk-1"']) {
      expect(off({ OPENAI_API_KEY: key })).toEqual([
        "Vendor openai stays off: of OPENAI_API_KEY expected printable characters without spaces and without quotes around them, found another text.",
      ]);
    }
  });

  test("a messages vendor's address with /v1 at its end is told: its paths have one", () => {
    const at = (dialect: "chat" | "messages", base_url: string) =>
      resolve({}, [{ id: "lab", dialect, base_url }]).warnings;
    expect(at("messages", "http://x/v1/")).toEqual([
      "The base_url of vendor lab ends in /v1: its paths begin with /v1 themselves, so that it will be asked at /v1/v1/messages.",
    ]);
    expect([
      ...at("messages", "http://x"),
      ...at("messages", "http://x/v1/more"),
      ...at("chat", "http://x/v1"),
    ]).toEqual([]);
    const anthropic = resolve({ ANTHROPIC_API_KEY: "k" }, [{ id: "anthropic", base_url: "https://x/v1" }]);
    expect(anthropic.warnings[0]).toContain("vendor anthropic ends in /v1");
  });

  test("the path of an account's file is no key: it may have blanks", () => {
    const environment = { GOOGLE_APPLICATION_CREDENTIALS: "C:\\My Keys\\account.json", GOOGLE_CLOUD_PROJECT: "p-1" };
    const { vendors, warnings } = resolve(environment);
    expect(vendors.map(({ id }) => id)).toEqual(["vertex", "vertex-anthropic"]);
    expect(warnings).toEqual([]);
  });

  test("a key in the environment is enough for a row that brings azure's address", () => {
    const { vendors } = resolve({ AZURE_OPENAI_API_KEY: "k" }, [{ id: "azure", base_url: "https://b/openai/v1" }]);
    expect(vendors).toMatchObject([{ id: "azure", apiKey: "k" }]);
  });

  test("a custom vendor: defaults by dialect, key and the file's own models", () => {
    const lab = { id: "lab", dialect: "chat", base_url: "http://x/v1" } as const;
    expect(resolve({}, [lab]).vendors).toEqual([
      { id: "lab", name: "lab", dialect: "chat", baseUrl: "http://x/v1", auth: "none", models: "any", quirks: {} },
    ]);
    const cases: [VendorSetting, object][] = [
      [
        { ...lab, api_key: "k" },
        { auth: "bearer", apiKey: "k" },
      ],
      [{ ...lab, dialect: "messages", api_key: "k" }, { auth: "x-api-key" }],
      [
        { ...lab, api_key: "k", auth: "api-key", query: "?a=1", name: "Lab" },
        { auth: "api-key", query: "a=1", name: "Lab" },
      ],
      [
        { ...lab, models: ["a"], quirks: { accepts_top_k: true, nine_character_tool_ids: true } },
        { models: ["a"], quirks: { acceptsTopK: true, nineCharacterToolIds: true } },
      ],
    ];
    for (const [row, expected] of cases) expect(resolve({}, [row]).vendors[0]).toMatchObject(expected);
    const routed = [{ id: "lab/tiny", routes: [{ vendor: "lab", model: "tiny" }] }];
    expect(resolve({}, [lab], routed).vendors[0]?.models).toBe("catalog");
    expect(resolve({}, [lab], [{ id: "lab/tiny" }]).vendors[0]?.models).toBe("catalog");
    expect(resolve({}, [lab], [{ id: "labor/tiny" }]).vendors[0]?.models).toBe("any");
    expect(resolve({}, [{ ...lab, models: "any" }], routed).vendors[0]?.models).toBe("any");
    expect(
      resolve({}, [lab], [{ id: "lab/tiny", routes: [{ vendor: "openrouter", model: "t" }] }]).vendors[0]?.models,
    ).toBe("any");
  });
});

describe("a responses server that only the file knows", () => {
  const quirksAt = (base_url: string, quirks?: VendorSetting["quirks"]) =>
    resolve({}, [{ id: "lab", dialect: "responses", base_url, ...(quirks && { quirks }) }]).vendors[0]?.quirks;

  test.each(["http://127.0.0.1:8000/v1", "https://api.x.ai/v1", "https://openai.com.example.com/v1"])(
    "%s: nobody knows how much of the dialect it knows, unless its row says so",
    (address) => {
      expect(quirksAt(address)).toEqual({});
      expect(quirksAt(address, { custom_tools: false })).toEqual({ customTools: false });
    },
  );

  test.each(["https://api.openai.com/v1", "https://eu.api.openai.com/v1", "https://a.openai.azure.com/openai/v1"])(
    "%s: is OpenAI's, which knows all of it",
    (address) => expect(quirksAt(address)).toEqual({ customTools: true }),
  );
});

test("a messages server that only the file knows takes thinking back without a signature, unless Anthropic's models may be there", () => {
  const quirksAt = (base_url: string, quirks?: VendorSetting["quirks"]) =>
    resolve({}, [{ id: "lab", dialect: "messages", base_url, ...(quirks && { quirks }) }]).vendors[0]?.quirks;
  for (const address of ["http://127.0.0.1:9931", "https://anthropic.com.example.com"]) {
    expect(quirksAt(address)).toEqual({ refusesExtras: true, unsignedThinking: true });
    expect(quirksAt(address, { unsigned_thinking: false })).toEqual({ refusesExtras: true, unsignedThinking: false });
  }
  // The clouds learn later than Anthropic what Claude Code may send.
  const foundry = "https://lab.services.ai.azure.com/anthropic";
  for (const address of [foundry, "https://bedrock-mantle.us-east-1.api.aws/anthropic"])
    expect(quirksAt(address)).toEqual({ refusesExtras: true });
  expect(quirksAt("https://api.anthropic.com")).toEqual({});
});

test("hosts that find a session's cache by its name, or refuse a request without one, are known", () => {
  const quirksAt = (dialect: "chat" | "messages" | "responses", base_url: string) =>
    resolve({}, [{ id: "lab", dialect, base_url }]).vendors[0]?.quirks;
  const opencode = { sessionHeader: "x-opencode-session", needsSession: true };
  expect(quirksAt("chat", "https://opencode.ai/zen/go/v1")).toEqual(opencode);
  expect(quirksAt("responses", "https://opencode.ai/zen/v1")).toEqual(opencode);
  expect(quirksAt("messages", "https://opencode.ai/zen/go")).toEqual({
    ...{ refusesExtras: true, unsignedThinking: true },
    ...opencode,
  });
  const workers = "https://api.cloudflare.com/client/v4/accounts/a/ai/v1";
  expect(quirksAt("chat", workers)).toEqual({ sessionHeader: "x-session-affinity" });
});

test("hosts that pass over one of the two names of the ceiling are told it by the other", () => {
  const quirksAt = (base_url: string) => resolve({}, [{ id: "lab", dialect: "chat", base_url }]).vendors[0]?.quirks;
  const cortex = "https://org-account.snowflakecomputing.com/api/v2/cortex/v1";
  expect(quirksAt(cortex)).toEqual({ maxTokensField: "max_completion_tokens" });
  expect(quirksAt("https://api.inceptionlabs.ai/v1")).toEqual({
    ...{ maxTokensField: "max_tokens", toolChoiceRequired: "unnamed" },
  });
  for (const other of ["https://snowflakecomputing.com.example.com/v1", "http://localhost:1/v1", "http://127.0.0.1:1"])
    expect(quirksAt(other)).toEqual({});
});

describe("local servers", () => {
  const ids = (rows: { id: string }[]) => rows.map((row) => row.id);

  test("are asked for unless a vendor stands for them by id or by address", () => {
    const drawing = ["automatic1111", "comfyui"];
    const all = localCandidates(registry, []);
    expect(ids(all)).toEqual(["ollama", "lmstudio", "llamacpp", "llamacpp", "vllm", ...drawing]);
    // Newer releases of llama.cpp listen elsewhere: they are asked first.
    const ports = all.filter(({ id }) => id === "llamacpp").map(({ baseUrl }) => new URL(baseUrl).port);
    expect(ports).toEqual(["9931", "8080"]);
    const { vendors } = resolve({}, [
      { id: "ollama", base_url: "http://127.0.0.1:9999/v1" },
      { id: "lab", dialect: "chat", base_url: "http://localhost:8000/v1" },
    ]);
    expect(ids(vendors)).toEqual(["ollama", "lab"]);
    expect(ids(localCandidates(registry, vendors))).toEqual(["lmstudio", "llamacpp", "llamacpp", ...drawing]);
    const elsewhere = resolve({}, [{ id: "lab", dialect: "chat", base_url: "http://10.0.0.7:8000/v1" }]).vendors;
    expect(localCandidates(registry, elsewhere)).toEqual(all);
    const older = resolve({}, [{ id: "lab", dialect: "chat", base_url: "http://localhost:8080/v1" }]).vendors;
    const left = localCandidates(registry, older).filter(({ id }) => id === "llamacpp");
    expect(left.map(({ baseUrl }) => baseUrl)).toEqual(["http://127.0.0.1:9931/v1"]);
  });

  test("a local row of the file is on without a key and keeps its own way", () => {
    const { vendors, warnings } = resolve({}, [{ id: "ollama" }]);
    expect(vendors).toMatchObject([{ id: "ollama", auth: "none", models: "discover" }]);
    expect(vendors[0]).not.toHaveProperty("local");
    expect(warnings).toEqual([]);
  });

  test("one that was started with a key is sent it as a bearer's, or as the row says", () => {
    const { vendors, warnings } = resolve({}, [
      { id: "vllm", api_key: "k" },
      { id: "llamacpp", api_keys: ["k", "l"] },
      { id: "lmstudio", dialect: "messages", base_url: "http://127.0.0.1:1234", api_key: "k" },
      { id: "ollama", api_key: "user:word", auth: "basic" },
    ]);
    expect(vendors.map(({ id, auth, apiKey, apiKeys }) => [id, auth, apiKey, apiKeys])).toEqual([
      ["vllm", "bearer", "k", undefined],
      ["llamacpp", "bearer", "k", ["k", "l"]],
      ["lmstudio", "bearer", "k", undefined],
      ["ollama", "basic", "user:word", undefined],
    ]);
    expect(warnings).toEqual([]);
  });

  test("several keys are each there once, a single one's first", () => {
    const keysOf = (row: Partial<VendorSetting>) =>
      resolve({}, [{ id: "openai", ...row }]).vendors.map(({ apiKey, apiKeys }) => [apiKey, apiKeys]);
    expect(keysOf({ api_key: "c", api_keys: ["a", "b", "c", "a"] })).toEqual([["c", ["c", "a", "b"]]]);
    expect(keysOf({ api_keys: ["a", "a"] })).toEqual([["a", undefined]]);
  });
});

describe("vendors that draw", () => {
  test("a server of one's own that speaks as one of the registry's does is one of its kind", () => {
    const graph = { "1": { class_type: "SaveImage", inputs: { text: "{{prompt}}" } } };
    const images = { wire: "comfyui", ratios: ["2:1"], takes_source: false, workflow: graph };
    const { vendors } = resolve({}, [{ id: "studio", base_url: "http://10.0.0.7:8188", images }]);
    expect(vendors).toMatchObject([{ id: "studio", auth: "none", models: "discover", modality: "image" }]);
    expect(vendors[0]?.drawing).toEqual({ wire: "comfyui", ratios: ["2:1"], takesSource: false, workflow: graph });
  });

  test("one that chats and draws stays open for both", () => {
    const row = {
      id: "lab",
      dialect: "chat",
      base_url: "http://10.0.0.7:1/v1",
      images: { takes_source: false },
    } as const;
    const { vendors } = resolve({}, [row]);
    expect(vendors[0]).toMatchObject({ models: "any", drawing: { takesSource: false } });
    expect(vendors[0]).not.toHaveProperty("modality");
  });

  test("their keys go out in their own forms", () => {
    const { vendors } = resolve({ FAL_KEY: "f", BFL_API_KEY: "b" }, []);
    expect(vendors.map(({ id, auth, modality }) => [id, auth, modality])).toEqual([
      ["fal", "key", "image"],
      ["bfl", "x-key", "image"],
    ]);
  });
});
