import { describe, expect, test } from "bun:test";
import { UPSTREAM_DIALECTS } from "../../src/dialects/dialect.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { upstreamUrl } from "../../src/vendors/outgoing.ts";
import { registry } from "../../src/vendors/registry.ts";

/** Contract 2, and the vendors that only draw (dialects.md 7): what switches which one on. */
const VARIABLES: Record<string, string> = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
  openrouter: "OPENROUTER_API_KEY",
  mistral: "MISTRAL_API_KEY",
  groq: "GROQ_API_KEY",
  deepseek: "DEEPSEEK_API_KEY",
  xai: "XAI_API_KEY",
  together: "TOGETHER_API_KEY",
  fireworks: "FIREWORKS_API_KEY",
  cerebras: "CEREBRAS_API_KEY",
  moonshotai: "MOONSHOT_API_KEY",
  zai: "ZAI_API_KEY",
  qwen: "DASHSCOPE_API_KEY",
  perplexity: "PERPLEXITY_API_KEY",
  nvidia: "NVIDIA_API_KEY",
  google: "GEMINI_API_KEY",
  replicate: "REPLICATE_API_TOKEN",
  fal: "FAL_KEY",
  bfl: "BFL_API_KEY",
  stability: "STABILITY_API_KEY",
};

describe("the registry", () => {
  test("has each vendor once, well-formed", () => {
    const ids = registry.map((row) => row.id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const row of registry) {
      expect(UPSTREAM_DIALECTS).toContain(row.dialect);
      expect(row.name).not.toBe("");
      expect(row.id).toMatch(/^[a-z]+(?:-[a-z]+)?[0-9]*$/);
      expect(row.baseUrl.endsWith("/")).toBe(false);
      // Only the messages dialect's base URL lacks its version: its path brings it (contract 2).
      if (row.dialect === "messages" && !row.paths) expect(row.baseUrl).not.toContain("/v1");
      if (row.local) expect([row.auth, row.env]).toEqual(["none", undefined]);
      else expect(row.env).toBeString();
    }
  });

  test("knows the vendors of contract 2 by their variables", () => {
    const severalVariables = ["azure", "vertex", "vertex-anthropic", "bedrock"];
    const alone = registry.filter((row) => row.env && !severalVariables.includes(row.id));
    expect(Object.fromEntries(alone.map((row) => [row.id, row.env as string]))).toEqual(VARIABLES);
    for (const id of severalVariables) expect(registry.some((row) => row.id === id)).toBe(true);
  });

  test("knows the local servers' usual ports", () => {
    const ports = registry.filter((row) => row.local).map((row) => [row.id, row.baseUrl]);
    expect(ports).toEqual([
      ["ollama", "http://127.0.0.1:11434/v1"],
      ["lmstudio", "http://127.0.0.1:1234/v1"],
      ["llamacpp", "http://127.0.0.1:8080/v1"],
      ["vllm", "http://127.0.0.1:8000/v1"],
      ["automatic1111", "http://127.0.0.1:7860"],
      ["comfyui", "http://127.0.0.1:8188"],
    ]);
  });
});

describe("fromEnvironment", () => {
  test("nothing set, nothing on: not even a local server", () => {
    expect(fromEnvironment({})).toEqual([]);
    expect(fromEnvironment({ OPENAI_API_KEY: "", MISTRAL_API_KEY: " \n" })).toEqual([]);
  });

  test("every variable switches on exactly its vendor, with the key trimmed", () => {
    for (const [id, name] of Object.entries(VARIABLES)) {
      const vendors = fromEnvironment({ [name]: `  key-of-${id}\n`, OTHER: "x" });
      expect(vendors.map((vendor) => [vendor.id, vendor.apiKey])).toEqual([[id, `key-of-${id}`]]);
      expect(Object.keys(vendors[0] ?? {})).not.toContain("local");
    }
  });

  test("azure needs key and endpoint, and takes an api-version when there is one", () => {
    expect(fromEnvironment({ AZURE_OPENAI_API_KEY: "k" })).toEqual([]);
    expect(fromEnvironment({ AZURE_OPENAI_ENDPOINT: "https://lab.openai.azure.com/" })).toEqual([]);
    const both = { AZURE_OPENAI_API_KEY: "k", AZURE_OPENAI_ENDPOINT: "https://lab.openai.azure.com/" };
    const [plain] = fromEnvironment(both);
    expect(plain && upstreamUrl(plain, "/chat/completions")).toBe(
      "https://lab.openai.azure.com/openai/v1/chat/completions",
    );
    expect(plain).toMatchObject({ id: "azure", auth: "api-key", models: "any" });
    const [versioned] = fromEnvironment({ ...both, AZURE_OPENAI_API_VERSION: "preview" });
    expect(versioned && upstreamUrl(versioned, "/chat/completions")).toBe(
      "https://lab.openai.azure.com/openai/v1/chat/completions?api-version=preview",
    );
    // What other programs have in the same variables: a version of the deployments' addresses, an address with its path.
    const others = {
      AZURE_OPENAI_ENDPOINT: "https://lab.openai.azure.com/openai/v1/",
      AZURE_OPENAI_API_VERSION: "2024-10-21",
    };
    for (const environment of [
      { ...both, AZURE_OPENAI_API_VERSION: "2024-12-01-preview" },
      { ...both, ...others },
    ]) {
      const [azure] = fromEnvironment(environment);
      expect(azure && upstreamUrl(azure, "/chat/completions")).toBe(
        "https://lab.openai.azure.com/openai/v1/chat/completions",
      );
      expect(Object.keys(azure ?? {})).not.toContain("otherQuery");
    }
  });
});
