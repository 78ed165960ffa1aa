import { type Static, Type } from "@sinclair/typebox";
import type { TokenCounts } from "../../canon/usage.ts";
import { randomBase62 } from "../../lib/id.ts";
import { isObject } from "../../lib/json.ts";
import { checker, late } from "../../wire/open.ts";
import { countPrompt, lastToolResult, lastUserText, messagesOf } from "./conversation.ts";
import { countTokens, piecesOf, slicesOf } from "./pieces.ts";
import type { Block, Fault, Play, Timing } from "./play.ts";
import { AT_ONCE, refuse } from "./play.ts";

/** All pauses of one play together, milliseconds. */
export const MAX_PLAY_MS = 600_000;
const MAX_BLOCKS = 1_000;
const MAX_CHUNKS = 200_000;
const MAX_TOKENS = 1_000_000_000;
/** Prose is searched for a script so far, in characters, and at so many opening braces. */
const MAX_SEARCH = 1024 * 1024;
const MAX_TRIES = 20;

const EXAMPLE = '{"blocks":[{"type":"text","text":"Hello"}]}';

const Closed = <T extends Parameters<typeof Type.Object>[0]>(properties: T) =>
  Type.Object(properties, { additionalProperties: false });

const Milliseconds = late(() => Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_PLAY_MS })));
const Tokens = late(() => Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_TOKENS })));
const Chunks = late(() => Type.Integer({ minimum: 0, maximum: MAX_CHUNKS }));
const ChunkSize = late(() => Type.Optional(Type.Integer({ minimum: 1 })));

/** Text or reasoning; `chunk` is the characters of one piece on the wire, by default a word. */
const SpokenBlock = late(() =>
  Closed({
    type: Type.Union([Type.Literal("text"), Type.Literal("reasoning")]),
    text: Type.String(),
    chunk: ChunkSize(),
  }),
);
/** `arguments` given as a string goes out as it is, so that broken JSON can be tried. */
const ToolCallBlock = late(() =>
  Closed({
    type: Type.Literal("tool_call"),
    id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    name: Type.String({ minLength: 1, maxLength: 200 }),
    arguments: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.String()]),
    chunk: ChunkSize(),
  }),
);

/**
 * A script of the model `sluice/script` (contract 10), sent as the last user message. A *chunk* is one piece of a block on the wire;
 * the opening record with the role is none.
 *
 * - `blocks`: what is said, in order.
 * - `delay_ms`: before the first byte. `chunk_delay_ms`: between two chunks. `silence_ms`: once, after the first chunk.
 * - `finish`: default `tool_calls` when a tool is called, else `stop`.
 * - `usage`: disjoint `input`, `cache_read`, `cache_write`; `reasoning` inside `output`. What is left out is counted.
 * - `error`: with `after`, an error record after that many chunks; without, or unstreamed, the HTTP status before the first byte.
 * - `cut`: the body ends after that many chunks with neither finish nor terminator; unstreamed, half of the JSON is sent.
 */
export const Script = late(() =>
  Closed({
    blocks: Type.Array(
      Type.Union([SpokenBlock(), ToolCallBlock()], { description: "a text, reasoning or tool_call block" }),
      {
        maxItems: MAX_BLOCKS,
      },
    ),
    delay_ms: Milliseconds(),
    chunk_delay_ms: Milliseconds(),
    silence_ms: Milliseconds(),
    finish: Type.Optional(
      Type.Union([
        Type.Literal("stop"),
        Type.Literal("length"),
        Type.Literal("tool_calls"),
        Type.Literal("content_filter"),
      ]),
    ),
    usage: Type.Optional(
      Closed({ input: Tokens(), cache_read: Tokens(), cache_write: Tokens(), output: Tokens(), reasoning: Tokens() }),
    ),
    error: Type.Optional(
      Closed({
        status: Type.Integer({ minimum: 400, maximum: 599 }),
        message: Type.String({ maxLength: 10_000 }),
        type: Type.Optional(Type.String({ maxLength: 200 })),
        code: Type.Optional(Type.String({ maxLength: 200 })),
        retry_after: Type.Optional(Type.Number({ minimum: 0, maximum: 86_400 })),
        after: Type.Optional(Chunks()),
      }),
    ),
    cut: Type.Optional(Chunks()),
  }),
);
export type Script = Static<ReturnType<typeof Script>>;

const faultOf = checker(Script);

/**
 * The model `sluice/script` for one chat body. Throws Refusal (400) naming what is wrong with the script.
 * Tools are called once: an agent that ran them, and was sent the same calls for their results, would go on for ever. It is told the results.
 */
export function playScript(body: Record<string, unknown>): Play {
  const messages = messagesOf(body);
  const script = readScript(lastUserText(messages));
  const blocks = script.blocks.map(toBlock);
  const timing = timingOf(script, blocks);
  const fault = toFault(script);
  const calls = blocks.some((block) => block.type === "tool_call");
  const result = calls ? lastToolResult(messages) : undefined;
  if (result !== undefined) return sayBack(result, countPrompt(messages));
  return {
    blocks,
    finish: script.finish ?? (calls ? "tool_calls" : "stop"),
    usage: usageOf(script, countPrompt(messages)),
    timing,
    ...(fault && { fault }),
  };
}

function sayBack(result: string, input: number): Play {
  const chunks = piecesOf(result.trim() === "" ? "The tools said nothing." : result);
  return {
    blocks: [{ type: "text", chunks }],
    finish: "stop",
    usage: { input, cacheRead: 0, cacheWrite: 0, output: chunks.length, reasoning: 0 },
    timing: AT_ONCE,
  };
}

function readScript(text: string): Script {
  const value = findScript(text);
  if (!value) throw refuse(`The last user message holds no JSON script. The smallest one is ${EXAMPLE}`);
  const fault = faultOf(value);
  if (fault) throw refuse(`The script is wrong: ${fault.message.replace(/^the body/, "the script")}.`);
  return value as Script;
}

/** The script inside a text: all of it, else its first fenced block, else its first JSON object. */
function findScript(text: string): Record<string, unknown> | undefined {
  const fence = /```(?:json)?[ \t]*\r?\n([\s\S]*?)```/.exec(text)?.[1];
  return (
    parseObject(text) ??
    (fence === undefined ? undefined : parseObject(fence)) ??
    firstObject(text.slice(0, MAX_SEARCH))
  );
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    // Not JSON: the caller looks elsewhere, and says so when it finds nothing.
    return undefined;
  }
}

function firstObject(text: string): Record<string, unknown> | undefined {
  let at = text.indexOf("{");
  for (let tries = 0; at >= 0 && tries < MAX_TRIES; tries++) {
    const end = closingBrace(text, at);
    const value = end < 0 ? undefined : parseObject(text.slice(at, end + 1));
    if (value) return value;
    at = text.indexOf("{", at + 1);
  }
  return undefined;
}

/** Index of the brace that closes the one at `open`, braces inside strings aside; -1 when there is none. */
function closingBrace(text: string, open: number): number {
  let depth = 0;
  let inString = false;
  for (let at = open; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === "\\") at++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return at;
  }
  return -1;
}

function toBlock(block: Script["blocks"][number]): Block {
  const cut = (text: string) => (block.chunk ? slicesOf(text, block.chunk) : piecesOf(text));
  if (block.type !== "tool_call") return { type: block.type, chunks: cut(block.text) };
  const text = typeof block.arguments === "string" ? block.arguments : JSON.stringify(block.arguments);
  return { type: "tool_call", id: block.id ?? `call_${randomBase62(24)}`, name: block.name, chunks: cut(text) };
}

function timingOf(script: Script, blocks: readonly Block[]): Timing {
  const chunks = blocks.reduce((sum, block) => sum + block.chunks.length, 0);
  if (chunks > MAX_CHUNKS) throw refuse(`The script is wrong: it makes ${chunks} chunks, more than ${MAX_CHUNKS}.`);
  const { delay_ms: delayMs = 0, chunk_delay_ms: chunkDelayMs = 0, silence_ms: silenceMs = 0 } = script;
  const total = delayMs + silenceMs + chunkDelayMs * Math.max(0, chunks - 1);
  if (total > MAX_PLAY_MS)
    throw refuse(`The script is wrong: its pauses come to ${total} ms, more than ${MAX_PLAY_MS}.`);
  return { delayMs, chunkDelayMs, silenceMs };
}

function usageOf({ usage = {}, blocks }: Script, prompt: number): TokenCounts {
  const { cache_read: cacheRead = 0, cache_write: cacheWrite = 0 } = usage;
  let spoken = 0;
  let thought = 0;
  for (const block of blocks) {
    const text = block.type === "tool_call" ? JSON.stringify(block.arguments) : block.text;
    if (block.type === "reasoning") thought += countTokens(text);
    else spoken += countTokens(text);
  }
  const output = usage.output ?? Math.max(1, spoken + (usage.reasoning ?? thought));
  return {
    input: usage.input ?? prompt,
    cacheRead,
    cacheWrite,
    output,
    reasoning: usage.reasoning ?? Math.min(thought, output),
  };
}

/** Type a vendor shows for a status when the script names none (dialects.md 1.5). */
function typeOfStatus(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

function toFault({ error, cut }: Script): Fault | undefined {
  if (error) {
    const { status, message, type = typeOfStatus(status), code = null, retry_after: retryAfter, after } = error;
    const shown = { status, message, type, code, ...(retryAfter !== undefined && { retryAfter }) };
    return { kind: "error", error: shown, ...(after !== undefined && { after }) };
  }
  return cut === undefined ? undefined : { kind: "cut", after: cut };
}
