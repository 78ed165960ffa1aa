import type { Vendor, VendorRow } from "./vendor.ts";

/** Every chat vendor but the dialect's own and Azure: the older name of the ceiling, and no `developer` role (`system` works everywhere). */
const OLDER_CHAT = { maxTokensField: "max_tokens", noDeveloperRole: true } as const;

/**
 * The vendors known by heart (contract 2; oddities: dialects.md 4.6-4.8). A vendor on a known dialect is one row here and no code.
 * Model lists of a vendor's own models are in the catalog; hosts of other people's models are asked for theirs.
 */
export const registry: readonly VendorRow[] = [
  {
    id: "openai",
    name: "OpenAI",
    // Its chat completions refuse tools to models that reason (dialects.md 1.6).
    dialect: "responses",
    baseUrl: "https://api.openai.com/v1",
    auth: "bearer",
    env: "OPENAI_API_KEY",
    models: "catalog",
    quirks: {},
  },
  {
    id: "anthropic",
    name: "Anthropic",
    dialect: "messages",
    baseUrl: "https://api.anthropic.com",
    auth: "x-api-key",
    env: "ANTHROPIC_API_KEY",
    headers: { "anthropic-version": "2023-06-01" },
    models: "catalog",
    quirks: { countTokens: true },
  },
  {
    id: "openrouter",
    name: "OpenRouter",
    dialect: "chat",
    baseUrl: "https://openrouter.ai/api/v1",
    auth: "bearer",
    env: "OPENROUTER_API_KEY",
    models: "discover",
    quirks: { ...OLDER_CHAT, reasoningReplay: "reasoning", acceptsTopK: true, acceptsCacheControl: true },
  },
  {
    id: "mistral",
    name: "Mistral",
    dialect: "chat",
    baseUrl: "https://api.mistral.ai/v1",
    auth: "bearer",
    env: "MISTRAL_API_KEY",
    models: "catalog",
    quirks: {
      ...OLDER_CHAT,
      // Refuses fields it does not know, and sends its usage unasked.
      noStreamOptions: true,
      toolChoiceRequired: "any",
      nineCharacterToolIds: true,
      seedField: "random_seed",
    },
  },
  {
    id: "groq",
    name: "Groq",
    dialect: "chat",
    baseUrl: "https://api.groq.com/openai/v1",
    auth: "bearer",
    env: "GROQ_API_KEY",
    models: "discover",
    quirks: { noDeveloperRole: true, inlineThinkTags: true },
  },
  {
    id: "deepseek",
    name: "DeepSeek",
    dialect: "chat",
    baseUrl: "https://api.deepseek.com",
    auth: "bearer",
    env: "DEEPSEEK_API_KEY",
    models: "catalog",
    quirks: {
      ...OLDER_CHAT,
      reasoningReplay: "reasoning_content",
      reasoningReplayAlways: true,
      // While it thinks, which is its default, a forced choice is refused.
      toolChoiceRequired: "auto",
      maxStopSequences: 16,
    },
  },
  {
    id: "xai",
    name: "xAI",
    dialect: "chat",
    baseUrl: "https://api.x.ai/v1",
    auth: "bearer",
    env: "XAI_API_KEY",
    models: "catalog",
    quirks: { noDeveloperRole: true, exclusiveReasoningTokens: true },
  },
  {
    id: "together",
    name: "Together AI",
    dialect: "chat",
    baseUrl: "https://api.together.xyz/v1",
    auth: "bearer",
    env: "TOGETHER_API_KEY",
    models: "discover",
    quirks: { ...OLDER_CHAT, acceptsTopK: true, inlineThinkTags: true },
  },
  {
    id: "fireworks",
    name: "Fireworks AI",
    dialect: "chat",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    auth: "bearer",
    env: "FIREWORKS_API_KEY",
    models: "discover",
    quirks: { ...OLDER_CHAT, acceptsTopK: true, inlineThinkTags: true },
  },
  {
    id: "cerebras",
    name: "Cerebras",
    dialect: "chat",
    baseUrl: "https://api.cerebras.ai/v1",
    auth: "bearer",
    env: "CEREBRAS_API_KEY",
    models: "discover",
    quirks: { noDeveloperRole: true, inlineThinkTags: true },
  },
  {
    id: "moonshotai",
    name: "Moonshot AI",
    dialect: "chat",
    baseUrl: "https://api.moonshot.ai/v1",
    auth: "bearer",
    env: "MOONSHOT_API_KEY",
    models: "catalog",
    quirks: { ...OLDER_CHAT, reasoningReplay: "reasoning_content", toolChoiceRequired: "auto" },
  },
  {
    id: "zai",
    name: "Z.ai",
    dialect: "chat",
    baseUrl: "https://api.z.ai/api/paas/v4",
    auth: "bearer",
    env: "ZAI_API_KEY",
    models: "catalog",
    quirks: { ...OLDER_CHAT, reasoningReplay: "reasoning_content", toolChoiceRequired: "auto", maxStopSequences: 1 },
  },
  {
    id: "qwen",
    name: "Qwen",
    dialect: "chat",
    baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    auth: "bearer",
    env: "DASHSCOPE_API_KEY",
    models: "catalog",
    quirks: { ...OLDER_CHAT, acceptsTopK: true },
  },
  {
    id: "perplexity",
    name: "Perplexity",
    dialect: "chat",
    baseUrl: "https://api.perplexity.ai",
    auth: "bearer",
    env: "PERPLEXITY_API_KEY",
    models: "catalog",
    // Usage comes unasked, cumulative, with every chunk.
    quirks: { ...OLDER_CHAT, noStreamOptions: true, acceptsTopK: true, inlineThinkTags: true },
  },
  {
    id: "nvidia",
    name: "NVIDIA",
    dialect: "chat",
    baseUrl: "https://integrate.api.nvidia.com/v1",
    auth: "bearer",
    env: "NVIDIA_API_KEY",
    models: "discover",
    quirks: { ...OLDER_CHAT, inlineThinkTags: true },
  },
  {
    id: "azure",
    name: "Azure OpenAI",
    dialect: "chat",
    baseUrl: "{AZURE_OPENAI_ENDPOINT}/openai/v1",
    auth: "api-key",
    env: "AZURE_OPENAI_API_KEY",
    query: "api-version={AZURE_OPENAI_API_VERSION}",
    // A model's name there is the operator's own name of a deployment.
    models: "any",
    quirks: {},
  },
  localServer("ollama", "Ollama", 11434, { emptyContent: true }),
  localServer("lmstudio", "LM Studio", 1234, { emptyContent: true }),
  localServer("llamacpp", "llama.cpp", 8080, { acceptsTopK: true }),
  localServer("vllm", "vLLM", 8000, { acceptsTopK: true }),
];

/** A row of a model server at its usual loopback port (contract 2). */
function localServer(id: string, name: string, port: number, quirks: VendorRow["quirks"]): VendorRow {
  return {
    id,
    name,
    dialect: "chat",
    baseUrl: `http://127.0.0.1:${port}/v1`,
    auth: "none",
    models: "discover",
    quirks: { ...OLDER_CHAT, inlineThinkTags: true, ...quirks },
    local: true,
  };
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A variable's value without blanks at its ends; undefined when nothing is left. */
const variable = (environment: Environment, name: string): string | undefined => environment[name]?.trim() || undefined;

/** `template` with every `{NAME}` replaced; undefined when a variable is missing. A slash at a value's end is dropped. */
function fill(template: string, environment: Environment): string | undefined {
  let missing = false;
  const text = template.replace(/\{([A-Z0-9_]+)\}/g, (_whole, name: string) => {
    const value = variable(environment, name);
    missing ||= value === undefined;
    return value?.replace(/\/+$/, "") ?? "";
  });
  return missing ? undefined : text;
}

/**
 * The registry's vendors that `environment` switches on, each with its key: those whose variable is there and not blank (contract 2).
 * Local servers are not among them. Pure.
 */
export function fromEnvironment(environment: Environment): Vendor[] {
  const vendors: Vendor[] = [];
  for (const { local: _local, query: queryTemplate, ...row } of registry) {
    const apiKey = row.env && variable(environment, row.env);
    const baseUrl = fill(row.baseUrl, environment);
    if (!apiKey || !baseUrl) continue;
    const query = queryTemplate && fill(queryTemplate, environment);
    vendors.push({ ...row, baseUrl, apiKey, ...(query && { query }) });
  }
  return vendors;
}
