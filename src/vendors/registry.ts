import type { AuthForm, VendorRow } from "./vendor.ts";

/** Fields of the chat dialect that only its own vendor reads; some of the others refuse a request for each (dialects.md 1.1). */
const OPENAI_FIELDS = (
  "store metadata verbosity safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options " +
  "service_tier prediction moderation"
).split(" ");
const without = (...names: string[]) => OPENAI_FIELDS.filter((field) => !names.includes(field));
/** Fields that other servers of this dialect know, or its own vendor for some of its models: who checks a body refuses the whole of it for one. */
const OTHERS_FIELDS = "top_k min_p repetition_penalty modalities audio web_search_options".split(" ");
/**
 * What clients of OpenRouter (Cline, Roo Code) tell it of its routing and its records with every request, through whatever server they are set to
 * (openrouter.ai, "API Reference"). It means nothing to a vendor itself.
 */
const ROUTER_FIELDS = "provider models route transforms plugins session_id trace top_a cache_control".split(" ");

/** Every chat vendor but the dialect's own and Azure: no `developer` role (`system` works everywhere), and functions for custom tools. */
const OTHER_CHAT = { noDeveloperRole: true, customTools: false, unknownFields: OPENAI_FIELDS } as const;
/** What messages hold at servers that check them, and refuse the whole request for any other field, such as `refusal` and `annotations` of a reply. */
const MESSAGE_FIELDS = ["role", "content", "name", "tool_calls", "tool_call_id"] as const;
/** Those of such servers that serve others' open models, which may think in tags. */
const CHECKED_CHAT = {
  ...OTHER_CHAT,
  inlineThinkTags: true,
  refusesReasoning: true,
  acceptsCacheControl: false,
  refusesBreakpoints: true,
  messageFields: MESSAGE_FIELDS,
  // "for 'role:system' the following must be satisfied[('messages.0.content' : value must be a string)]"
  joinedContent: true,
  // "json mode cannot be combined with tool/function calling", '"tools" is incompatible with "response_format"'
  noFormatBesideTools: true,
} as const;
/** Most of these also know only the older name of the ceiling. */
const OLDER_CHAT = { ...OTHER_CHAT, maxTokensField: "max_tokens" } as const;

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
    quirks: {
      customTools: true,
      legacyFunctions: true,
      refusesReasoning: true,
      acceptsCacheControl: false,
      // Without it the first words decide, which are an agent's own and alike in all of its sessions (developers.openai.com, "Prompt caching").
      sessionField: "prompt_cache_key",
      countTokens: true,
      webTools: true,
    },
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
    quirks: { countTokens: true, ownBillingLine: true, webTools: true },
  },
  {
    id: "openrouter",
    name: "OpenRouter",
    dialect: "chat",
    baseUrl: "https://openrouter.ai/api/v1",
    auth: "bearer",
    env: "OPENROUTER_API_KEY",
    models: "discover",
    quirks: {
      ...OLDER_CHAT,
      unknownFields: [],
      reasoningReplay: "reasoning",
      acceptsTopK: true,
      acceptsCacheControl: true,
      remoteMedia: "all",
      // It keeps a session with one of a model's vendors (openrouter.ai, "Prompt Caching").
      sessionField: "session_id",
      webTools: true,
    },
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
      unknownFields: [
        ...without("metadata", "prediction", "prompt_cache_key"),
        ...["user", "logit_bias", "include_reasoning"],
        // The others are in the types of its own SDK (mistralai 3.7, `ChatCompletionRequest`).
        ...OTHERS_FIELDS.filter((field) => field !== "top_k" && field !== "repetition_penalty"),
        ...ROUTER_FIELDS,
      ],
      acceptsTopK: true,
      // "Always replay the assistant turn": without what it thought its model does worse (docs.mistral.ai, "Reasoning"; mistralai's example of several turns).
      reasoningReplay: "reasoning_content",
      thoughtParts: true,
      refusesReasoning: true,
      acceptsCacheControl: false,
      refusesBreakpoints: true,
      messageFields: [...MESSAGE_FIELDS.filter((field) => field !== "name"), "prefix"],
      noStreamOptions: true,
      toolChoiceRequired: "any",
      nineCharacterToolIds: true,
      strictRoleOrder: true,
      // DocumentURLChunk of its API; its FileChunk takes nothing but the ID of a file that it holds.
      documentUrls: true,
      maxTemperature: 1.5,
      seedField: "random_seed",
      // docs.mistral.ai, "Prompt caching": what shares it is likelier to be found again.
      sessionField: "prompt_cache_key",
      prefill: "prefix",
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
    quirks: {
      ...CHECKED_CHAT,
      unknownFields: [
        ...without("service_tier"),
        ...["logit_bias", "logprobs", "top_logprobs"],
        ...OTHERS_FIELDS,
        ...ROUTER_FIELDS,
      ],
      // Its models that think take it back under the name that it gives it (groq-sdk 1.6, `ChatCompletionAssistantMessageParam`; vercel/ai,
      // `convert-to-groq-chat-messages.ts`). Others say that they do not: "property 'reasoning' is unsupported".
      reasoningReplay: "reasoning",
      refusesReasoning: false,
      // Its document names `name` among what is a 400 (console.groq.com, "OpenAI Compatibility").
      messageFields: [...MESSAGE_FIELDS.filter((field) => field !== "name"), "reasoning"],
    },
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
      // "invalid type: sequence, expected a string"
      joinedContent: true,
      // A file may be an image and nothing else (api-docs.deepseek.com, "Vision"): "file must have a file_id or file_data", or "unknown variant `file`".
      noPdf: true,
      // While it thinks, which is its default, a forced choice is refused.
      toolChoiceRequired: "auto-unless-off",
      // "Chat Prefix Completion" is a beta at another base URL; elsewhere, while the model thinks, such a turn is refused.
      prefill: "none",
      maxStopSequences: 16,
      noJsonSchema: true,
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
    quirks: {
      ...OTHER_CHAT,
      // Whether they reason or not, its models refuse a penalty, even of 0.
      unknownFields: [...OPENAI_FIELDS, "presence_penalty", "frequency_penalty"],
      exclusiveReasoningTokens: true,
      // Caches are a server's own; of this dialect it reads no `prompt_cache_key` (docs.x.ai, "Maximizing Cache Hits").
      sessionHeader: "x-grok-conv-id",
      refusesReasoning: true,
    },
  },
  {
    id: "together",
    name: "Together AI",
    dialect: "chat",
    baseUrl: "https://api.together.xyz/v1",
    auth: "bearer",
    env: "TOGETHER_API_KEY",
    models: "discover",
    quirks: {
      ...OLDER_CHAT,
      acceptsTopK: true,
      inlineThinkTags: true,
      // Of an assistant's turn it takes it (together 3.1, `ChatCompletionAssistantMessageParam`), by the name that its models' templates read.
      reasoningReplay: "reasoning_content",
    },
  },
  {
    id: "fireworks",
    name: "Fireworks AI",
    dialect: "chat",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    auth: "bearer",
    env: "FIREWORKS_API_KEY",
    models: "discover",
    quirks: {
      ...OLDER_CHAT,
      // Of services it has `priority` (docs.fireworks.ai, "Serverless Modes").
      unknownFields: [
        ...without("prompt_cache_key", "prediction", "metadata", "service_tier"),
        "include_reasoning",
        ...ROUTER_FIELDS,
      ],
      // "Requests with max_tokens > 4096 must have stream=true"
      maxWholeTokens: 4_096,
      acceptsTopK: true,
      // Caches are a replica's own (docs.fireworks.ai, "Prompt caching").
      sessionHeader: "x-session-affinity",
      inlineThinkTags: true,
      // Its document wants it inside a tool loop, and has models that know nothing of it pass over it (docs.fireworks.ai, "Reasoning").
      reasoningReplay: "reasoning_content",
      // "Extra inputs are not permitted", of messages and of the parts of their content.
      acceptsCacheControl: false,
      refusesBreakpoints: true,
      messageFields: [...MESSAGE_FIELDS, "reasoning_content"],
    },
  },
  {
    id: "cerebras",
    name: "Cerebras",
    dialect: "chat",
    baseUrl: "https://api.cerebras.ai/v1",
    auth: "bearer",
    env: "CEREBRAS_API_KEY",
    models: "discover",
    quirks: {
      ...CHECKED_CHAT,
      // The others of OpenAI's are in the types of its own SDK.
      unknownFields: [
        ...without("prompt_cache_key", "service_tier", "prediction"),
        "include_reasoning",
        ...OTHERS_FIELDS,
        ...ROUTER_FIELDS,
      ],
      // Its models take their reasoning back under the name that it gives it; "'messages.2.assistant.reasoning_content' is unsupported".
      reasoningReplay: "reasoning",
      refusesReasoning: false,
      messageFields: [...MESSAGE_FIELDS, "reasoning"],
      maxTemperature: 1.5,
      // "Tools with mixed values for 'strict' are not allowed"
      evenStrictTools: true,
    },
  },
  {
    id: "moonshotai",
    name: "Moonshot AI",
    dialect: "chat",
    baseUrl: "https://api.moonshot.ai/v1",
    auth: "bearer",
    env: "MOONSHOT_API_KEY",
    models: "catalog",
    quirks: {
      ...OLDER_CHAT,
      unknownFields: without("prompt_cache_key", "safety_identifier"),
      reasoningReplay: "reasoning_content",
      reasoningReplayCalls: true,
      // "the message at position 64 with role 'assistant' must not be empty": what it was thinking as its user stopped it (anomalyco/opencode #37887).
      noEmptyTurns: true,
      // K3 takes `required`, and no tool's name; K2 while it thinks neither, and says so (UKGovernmentBEIS/inspect_ai #5152).
      toolChoiceRequired: "unnamed",
      // platform.kimi.ai, "Partial Mode".
      prefill: "partial",
      // "For Coding Agents, this is typically a session id" (platform.kimi.ai, "Create Chat Completion").
      sessionField: "prompt_cache_key",
      plainSchemas: true,
      letterFirstNames: true,
      // "unsupported image url": it takes bytes, and addresses of its own files (OpenHands/software-agent-sdk #3155).
      remoteMedia: "none",
      maxStopSequences: 5,
    },
  },
  {
    id: "zai",
    name: "Z.ai",
    dialect: "chat",
    baseUrl: "https://api.z.ai/api/paas/v4",
    auth: "bearer",
    env: "ZAI_API_KEY",
    models: "catalog",
    quirks: {
      ...OLDER_CHAT,
      reasoningReplay: "reasoning_content",
      userFirst: true,
      // Without it nothing comes while a call's arguments are written, and what is silent for 30 seconds is cut off (docs.z.ai, "Stream Tool Call";
      // NousResearch/hermes-agent #12758).
      toolStream: true,
      // "Tool choice must be auto"
      toolChoiceRequired: "auto-alone",
      maxStopSequences: 1,
      // "The temperature parameter is illegal.：限制数值范围[0,1]", of every model.
      maxTemperature: 1,
      noJsonSchema: true,
      // Its support's word; 96 % of an agent's prompt came from the cache with it, 52 % without (openclaw/openclaw #68079).
      sessionHeader: "x-session-id",
    },
  },
  {
    id: "qwen",
    name: "Qwen",
    dialect: "chat",
    baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    auth: "bearer",
    env: "DASHSCOPE_API_KEY",
    models: "catalog",
    quirks: {
      ...OTHER_CHAT,
      // The older name bounds the answer alone at many of its models, whatever they think before it (Model Studio, "API compatibility upgrades").
      maxTokensField: "max_completion_tokens",
      // "parameter.enable_thinking must be set to false for non-streaming calls", of most of its models.
      streamsReasoning: true,
      // As its open models' templates do, inside a tool loop (dialects.md 4.2).
      reasoningReplay: "reasoning_content",
      // "The input messages do not contain elements with the role of user"
      userFirst: true,
      acceptsTopK: true,
      toolChoiceRequired: "auto-while-reasoning",
      // Its `partial` is for models that do not think (alibabacloud.com, "Partial mode"), which most of them do by default.
      prefill: "none",
    },
  },
  {
    id: "perplexity",
    name: "Perplexity",
    // Its chat completions have been shut down ("Sonar is now the Agent API. Use `/v1/responses` instead", docs.perplexity.ai).
    dialect: "responses",
    baseUrl: "https://api.perplexity.ai/v1",
    auth: "bearer",
    env: "PERPLEXITY_API_KEY",
    models: "catalog",
    quirks: { customTools: false, noReasoningSummary: true, agentTerms: true, webTools: true },
  },
  {
    id: "nvidia",
    name: "NVIDIA",
    dialect: "chat",
    baseUrl: "https://integrate.api.nvidia.com/v1",
    auth: "bearer",
    env: "NVIDIA_API_KEY",
    models: "discover",
    // "For system and assistant roles, the object list format is not supported" (docs.api.nvidia.com).
    quirks: { ...OLDER_CHAT, inlineThinkTags: true, joinedContent: true },
  },
  {
    id: "azure",
    name: "Azure OpenAI",
    dialect: "chat",
    baseUrl: "{AZURE_OPENAI_ENDPOINT}/openai/v1",
    auth: "api-key",
    env: "AZURE_OPENAI_API_KEY",
    query: "api-version={AZURE_OPENAI_API_VERSION}",
    // Programs that ask at a deployment's own address need a date there; this address has no versions of dates, and refuses them.
    otherQuery: /\d{4}-\d{2}-\d{2}/,
    // A model's name there is the operator's own name of a deployment.
    models: "any",
    quirks: { customTools: true, legacyFunctions: true, refusesReasoning: true, acceptsCacheControl: false },
  },
  {
    id: "google",
    name: "Google",
    dialect: "gemini",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta",
    auth: "x-goog-api-key",
    env: "GEMINI_API_KEY",
    models: "catalog",
    quirks: { countTokens: true },
  },
  {
    id: "vertex",
    name: "Google Vertex AI",
    dialect: "gemini",
    ...publisherAt("google", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    auth: "service-account",
    env: "GOOGLE_APPLICATION_CREDENTIALS",
    models: "any",
    modelsOf: "google",
    quirks: { countTokens: true, bareCountBody: true },
  },
  {
    id: "vertex-anthropic",
    name: "Google Vertex AI (Anthropic)",
    dialect: "messages",
    // What Anthropic's own programs read goes first: its models are not in all places where Google's are.
    ...publisherAt("anthropic", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"),
    standIns: { ANTHROPIC_VERTEX_PROJECT_ID: "GOOGLE_CLOUD_PROJECT", CLOUD_ML_REGION: "GOOGLE_CLOUD_LOCATION" },
    paths: { whole: "/models/{model}:rawPredict", stream: "/models/{model}:streamRawPredict" },
    auth: "service-account",
    env: "GOOGLE_APPLICATION_CREDENTIALS",
    models: "any",
    modelsOf: "anthropic",
    quirks: {
      // platform.claude.com, "Claude on Vertex AI".
      versionInBody: "vertex-2023-10-16",
      publisherModels: true,
      countTokens: true,
      refusesExtras: true,
      // It takes bytes alone (vercel/ai, `google-vertex-anthropic-provider.ts`).
      remoteMedia: "none",
      webTools: false,
    },
  },
  {
    id: "bedrock",
    name: "Amazon Bedrock",
    dialect: "messages",
    baseUrl: "https://bedrock-runtime.{AWS_REGION}.amazonaws.com",
    region: "{AWS_REGION}",
    // What Amazon's command line and its Python read.
    standIns: { AWS_REGION: "AWS_DEFAULT_REGION" },
    paths: { whole: "/model/{model}/invoke", stream: "/model/{model}/invoke-with-response-stream" },
    framing: "aws-event-stream",
    auth: "bearer",
    env: "AWS_BEARER_TOKEN_BEDROCK",
    otherKeys: [
      {
        env: "AWS_ACCESS_KEY_ID",
        auth: "sigv4",
        credentials: { secretAccessKey: "AWS_SECRET_ACCESS_KEY", sessionToken: "AWS_SESSION_TOKEN?" },
      },
    ],
    models: "any",
    modelsOf: "anthropic",
    quirks: {
      versionInBody: "bedrock-2023-05-31",
      refusesExtras: true,
      silentOff: true,
      remoteMedia: "none",
      // Of other models and of Claude 3: "You invoked an unsupported model or your request did not allow prompt caching".
      knownCacheMarks: true,
      webTools: false,
    },
  },
  drawingVendor("replicate", "Replicate", "https://api.replicate.com/v1", "bearer", "REPLICATE_API_TOKEN"),
  drawingVendor("fal", "fal", "https://queue.fal.run", "key", "FAL_KEY"),
  drawingVendor("bfl", "Black Forest Labs", "https://api.bfl.ai/v1", "x-key", "BFL_API_KEY"),
  drawingVendor("stability", "Stability AI", "https://api.stability.ai", "bearer", "STABILITY_API_KEY"),
  // Models' templates show a model what it thought in the tool loop it is in (dialects.md 4.2); each of these reads it under one name.
  {
    ...localServer("ollama", "Ollama", 11434, {
      emptyContent: true,
      reasoningReplay: "reasoning",
      // Of a result in parts it forgets whose it is, of a turn in parts what was thought (ollama/ollama #17414).
      joinedContent: true,
      // It reads no `tool_choice` at all, `none` neither (ollama/ollama #17921).
      toolChoiceRequired: "auto-alone",
      // Its `openai/openai.go`: `none` is its own `think: false`.
      reasoningOff: "effort",
      // The engine that it runs since 2026 reads none, which it makes up for since August alone (ollama/ollama #17755).
      noWebp: true,
    }),
    // Models of its cloud are not downloaded, and listed only where they were (its `internal/modelref`; ollama/ollama #17388).
    unlistedTag: "cloud",
  },
  // "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
  localServer("lmstudio", "LM Studio", 1234, {
    emptyContent: true,
    toolChoiceRequired: "unnamed",
    // lmstudio-ai/lmstudio-bug-tracker #2203
    namedProperties: true,
    // lmstudio-ai/lmstudio-bug-tracker #1839
    noWebp: true,
  }),
  {
    ...localServer("llamacpp", "llama.cpp", 8080, {
      acceptsTopK: true,
      reasoningReplay: "reasoning_content",
      // ggml-org/llama.cpp #26535: a choice in any other form than a word is `auto` to it.
      toolChoiceRequired: "unnamed",
      // What it hands to any model's template; `reasoning_effort: none` it knows since July 2026 alone (ggml-org/llama.cpp #26045).
      reasoningOff: "template-enable-thinking",
      // It refuses one, or leaves it out without a word (can1357/oh-my-pi #2922, NousResearch/hermes-agent #97486).
      noWebp: true,
    }),
    // Since its 0.7 (ggml-org/llama.cpp #26508).
    newerUrl: "http://127.0.0.1:9931/v1",
  },
  localServer("vllm", "vLLM", 8000, {
    acceptsTopK: true,
    prefill: "continue",
    reasoningReplay: "reasoning",
    // docs.vllm.ai, "Reasoning Outputs": templates that know no such argument are not told it.
    reasoningOff: "template-enable-thinking",
  }),
  drawingServer("automatic1111", "AUTOMATIC1111", 7860),
  drawingServer("comfyui", "ComfyUI", 8188),
];

/**
 * Where Vertex serves a publisher's models, by the variables of project and place; without a place everywhere. The newest models are served in no region
 * alone: everywhere, or in the whole of a continent. Those places have hosts of another form.
 */
function publisherAt(
  publisher: string,
  project: string,
  place: string,
): Pick<VendorRow, "baseUrl" | "baseUrls" | "defaults"> {
  const url = (host: string, location: string) =>
    `https://${host}/v1/projects/{${project}}/locations/${location}/publishers/${publisher}`;
  return {
    baseUrl: url(`{${place}}-aiplatform.googleapis.com`, `{${place}}`),
    baseUrls: {
      [`${place}=global`]: url("aiplatform.googleapis.com", "global"),
      [`${place}=us`]: url("aiplatform.us.rep.googleapis.com", "us"),
      [`${place}=eu`]: url("aiplatform.eu.rep.googleapis.com", "eu"),
    },
    defaults: { [place]: "global" },
  };
}

/** A row of a model server at its usual loopback port (contract 2). */
function localServer(id: string, name: string, port: number, quirks: VendorRow["quirks"]): VendorRow {
  return {
    id,
    name,
    dialect: "chat",
    baseUrl: `http://127.0.0.1:${port}/v1`,
    auth: "none",
    models: "discover",
    // A model server must not be a way into the network it stands in: what is at a URL is fetched by the gateway's guarded fetch.
    quirks: { ...OLDER_CHAT, unknownFields: [], inlineThinkTags: true, remoteMedia: "none", ...quirks },
    local: true,
  };
}

/** A row of a vendor that only draws, and takes any name of its models (dialects.md 7); its protocol is in its image row. */
function drawingVendor(id: string, name: string, baseUrl: string, auth: AuthForm, env: string): VendorRow {
  return { id, name, dialect: "chat", baseUrl, auth, env, models: "any", quirks: {}, modality: "image" };
}

/** A row of an image server at its usual loopback port. */
function drawingServer(id: string, name: string, port: number): VendorRow {
  const baseUrl = `http://127.0.0.1:${port}`;
  const row = { id, name, dialect: "chat", baseUrl, auth: "none", models: "discover", quirks: {} } as const;
  return { ...row, modality: "image", local: true };
}

/** The environment variable that switches a vendor of the registry on; undefined for one that a variable does not switch on. */
export const variableOf = (vendorId: string): string | undefined => registry.find(({ id }) => id === vendorId)?.env;
