import { isObject, listOf, stringOf } from "../../lib/json.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { withItems } from "../array-items.ts";
import type { Lesson, Quirks, VendorTerms } from "../dialect.ts";
import { withObjectRoot } from "./function-schema.ts";
import { mapInner } from "./inner-schemas.ts";

type Wire = Record<string, unknown>;
type Looseness = NonNullable<Quirks["looseSchemas"]>;

/** Deepest nesting of a schema that is looked into. */
const MAX_DEPTH = 64;

/** What a schema says of texts and lists that a server may not understand: each is a word for the model's eyes all the same, and a call is its client's to check. */
const BOUNDS: Readonly<Record<Looseness, readonly string[]>> = {
  patterns: ["pattern"],
  bounds: ["pattern", "minLength", "maxLength", "minItems", "maxItems"],
};

/**
 * How servers refuse the whole request for a pattern in a tool's schema that JSON Schema allows and their own regular expressions do not: OpenAI and DeepSeek
 * of Unicode's classes, which Claude Code's own tools have since 2.1.265 (anthropics/claude-code #92964), OpenAI of what looks ahead (tombii/better-ccflare #357),
 * Groq too (CodeWithCJ/SparkyFitness #1649), llama.cpp of one that is not for the whole text (ggml-org/llama.cpp #26930).
 */
const PATTERN_REFUSED =
  /\bis not (?:a|valid) ["']regex["']|\bregex look(?:around|ahead|behind)s? (?:is|are) not supported\b|\bPattern must start with '\^' and end with '\$'/i;

/** What llama.cpp and LM Studio say where patterns or lengths make a grammar that they cannot read (ggml-org/llama.cpp #27087, firecrawl/firecrawl #4512). */
const GRAMMAR_REFUSED = /\bfailed to parse grammar\b/i;

/**
 * How servers refuse the whole request for a tool's schema that is no plain object at its root, as MCP allows: Anthropic of a choice there, which Notion's server
 * had for a while (makenotion/notion-mcp-server #341, anthropics/claude-code #45106), and of none at all; OpenAI and those that write as it does
 * (langchain-ai/langchainjs #9804), also of a list that does not say what it holds (spacelift-io/spacectl #402); xAI (lidge-jun/opencodex #1105); LM Studio, in the words of its reader (iOfficeAI/AionUi #265).
 */
const UNWHOLE =
  /\binput_schema does not support oneOf, allOf, or anyOf at the top level|\binput_schema\.type: (?:Field required|Input should be 'object')|\bschema must (?:have type 'object' and not have|be a JSON Schema of 'type: "object"')|\b(?:object schema missing properties|array schema missing items)\b|\btool parameter root must be an object type\b|"parameters",\s*"type"\s*\],\s*"message":\s*"Invalid discriminator value\. Expected 'object'"/i;

/** What a refusal in these words teaches of tools' schemas; see {@link UpstreamDialect.lessons}. */
export function looseLessons(words: string, terms: VendorTerms): Lesson[] {
  if (UNWHOLE.test(words)) return [{ ...terms, quirks: { ...terms.quirks, wholeSchemas: true } }];
  const grades: readonly Looseness[] = GRAMMAR_REFUSED.test(words)
    ? ["patterns", "bounds"]
    : PATTERN_REFUSED.test(words)
      ? ["patterns"]
      : [];
  return grades.map((looseSchemas) => ({ ...terms, quirks: { ...terms.quirks, looseSchemas } }));
}

/** A schema without these keywords; the very same where it has none of them. */
function loosen(schema: unknown, words: readonly string[], depth = 0): unknown {
  if (!isObject(schema) || depth > MAX_DEPTH) return schema;
  const inner = mapInner(schema, (one) => loosen(one, words, depth + 1));
  if (!words.some((word) => Object.hasOwn(inner, word))) return inner;
  return Object.fromEntries(Object.entries(inner).filter(([word]) => !words.includes(word)));
}

/** The places of a tool's schema in the three dialects. */
const PLACES = ["function", "parameters", "input_schema"];

/** A tool with its schema as `change` returns it; the very same where that changes none. */
function mapSchema(tool: unknown, change: (schema: unknown) => unknown): unknown {
  if (!isObject(tool)) return tool;
  let loose: Wire = tool;
  for (const place of PLACES) {
    const value = tool[place];
    const next = place === "function" ? mapSchema(value, change) : change(value);
    if (next !== value) loose = { ...loose, [place]: next };
  }
  // A namespace holds tools.
  const held = tool["tools"];
  const next = Array.isArray(held) ? mapChanged<unknown>(held, (one) => mapSchema(one, change)) : held;
  return next === held ? loose : { ...loose, tools: next };
}

/** Tools with schemas as loose as the vendor wants them; the very same where there is nothing to leave out. */
export function withLooseSchemas(tools: unknown, { looseSchemas, wholeSchemas }: Quirks): unknown {
  if (!(looseSchemas || wholeSchemas) || !Array.isArray(tools)) return tools;
  const words = looseSchemas ? BOUNDS[looseSchemas] : [];
  const change = (schema: unknown) => loosen(wholeSchemas ? withItems(withObjectRoot(schema)) : schema, words);
  return mapChanged<unknown>(tools, (tool) => mapSchema(tool, change));
}

/** What binds all arguments together at the root of a schema, and goes with it. */
const CHOICES = ["anyOf", "oneOf", "not", "enum", "const"];

const isChoice = (schema: unknown): boolean => isObject(schema) && CHOICES.some((word) => Object.hasOwn(schema, word));

const nameOf = (tool: unknown): string => {
  if (!isObject(tool)) return "";
  return stringOf(tool["name"]) || (isObject(tool["function"]) ? stringOf(tool["function"]["name"]) : "");
};

/** The tools, by their names, of which {@link withLooseSchemas} leaves something out. */
export function namesLoosened(tools: unknown, { looseSchemas, wholeSchemas }: Quirks): string[] {
  const namesOf = (what: string, change: (schema: unknown) => unknown) =>
    listOf(tools).flatMap((tool) => (mapSchema(tool, change) === tool ? [] : [`tools.${nameOf(tool)}.${what}`]));
  return [
    ...(wholeSchemas ? namesOf("choices", (schema) => (isChoice(schema) ? undefined : schema)) : []),
    ...(looseSchemas ? namesOf(looseSchemas, (schema) => loosen(schema, BOUNDS[looseSchemas])) : []),
  ];
}
