import type { Abort, Abortable } from "../../lib/abort.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Fields } from "../../lib/http1/fields.ts";
import { type Answer, type Read, readText } from "../answer.ts";
import { pause } from "./pause.ts";
import type { Block, Play, PlayError, PlayUsage } from "./play.ts";

/** What every record of a reply repeats. */
type Heading = { id: string; created: number; model: string };

export type Stage = {
  heading: Heading;
  stream: boolean;
  /** The client wants a usage record at the end of a stream. */
  wantsUsage: boolean;
  clock: Clock;
  abort: Abort;
};

/** A play as a chat vendor's HTTP answer (dialects.md 1.3, 1.4). Rejects with the abort's reason when aborted before its first byte. */
export async function perform(play: Play, stage: Stage): Promise<Response | Answer> {
  await pause(stage.clock, play.timing.delayMs, stage.abort);
  const { fault } = play;
  if (fault?.kind === "error" && (fault.after === undefined || !stage.stream)) return errorResponse(fault.error);
  return stage.stream ? new PlayedStream(play, stage) : wholeResponse(play, stage);
}

/** An error as the chat dialect's HTTP answer. */
export function errorResponse(error: PlayError): Response {
  const headers = error.retryAfter === undefined ? undefined : { "retry-after": String(error.retryAfter) };
  return Response.json(errorBody(error), { status: error.status, ...(headers && { headers }) });
}

const errorBody = ({ message, type, code }: PlayError) => ({ error: { message, type, param: null, code } });

async function wholeResponse(play: Play, stage: Stage): Promise<Response> {
  const { timing, blocks, fault } = play;
  const chunks = blocks.reduce((sum, block) => sum + block.chunks.length, 0);
  await pause(stage.clock, timing.silenceMs + timing.chunkDelayMs * Math.max(0, chunks - 1), stage.abort);
  const textOf = (type: Block["type"]) => blocks.flatMap((block) => (block.type === type ? block.chunks : [])).join("");
  const calls = blocks.flatMap((block) => {
    if (block.type !== "tool_call") return [];
    return [{ id: block.id, type: "function", function: { name: block.name, arguments: block.chunks.join("") } }];
  });
  const reasoning = textOf("reasoning");
  const content = textOf("text");
  const message = {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const { id, created, model } = stage.heading;
  const choices = [{ index: 0, message, logprobs: null, ...finishOf(play) }];
  const body = { id, object: "chat.completion", created, model, choices, usage: usageRecord(play.usage) };
  const text = JSON.stringify(body);
  const sent = fault?.kind === "cut" ? text.slice(0, text.length >> 1) : text;
  return new Response(sent, { headers: { "content-type": "application/json" } });
}

const finishOf = ({ finish, stopReason }: Play) => ({ finish_reason: finish, stop_reason: stopReason ?? null });

function usageRecord({ input, cacheRead, cacheWrite, output, reasoning }: PlayUsage) {
  const prompt = input + cacheRead + cacheWrite;
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

const STREAM_HEADERS: Fields = new Headers({ "content-type": "text/event-stream; charset=utf-8" });
const OVER: Promise<Read> = Promise.resolve({ done: true });
const encoder = new TextEncoder();

/**
 * The event stream of a play, written only as fast as it is read: one record for each read, and nothing ahead. A class, and one timer at a time:
 * thousands of silent streams may wait on this side of a client.
 */
class PlayedStream implements Answer, Abortable {
  readonly status = 200;
  readonly headers = STREAM_HEADERS;
  readonly #steps: Iterator<Step, undefined>;
  #waiting: { resolve(read: Read): void; reject(reason: unknown): void } | undefined;
  #stopPause: () => void = () => {};
  #isOver = false;

  constructor(
    play: Play,
    private readonly stage: Stage,
  ) {
    this.#steps = stepsOf(play, stage);
    stage.abort.add(this);
  }

  /** Like a connection: an abort fails the read that waits, and every later one, at once. */
  onAbort(reason: unknown): void {
    this.#stopPause();
    this.#waiting?.reject(reason);
    this.#waiting = undefined;
  }

  read(): Promise<Read> {
    const { abort, clock } = this.stage;
    if (abort.aborted) return Promise.reject(abort.reason);
    if (this.#isOver) return OVER;
    const { done, value } = this.#steps.next();
    const text = done ? undefined : value.text;
    const pauseMs = done ? 0 : value.pauseMs;
    if (pauseMs <= 0) return Promise.resolve(this.#give(text));
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#stopPause = clock.after(pauseMs, () => {
        this.#waiting = undefined;
        resolve(this.#give(text));
      });
    });
  }

  text(maxBytes: number): Promise<string> {
    return readText(this, maxBytes);
  }

  cancel(): void {
    this.#stopPause();
    this.#end();
  }

  finish(): void {
    // There is no connection for which the rest would have to be read.
    this.cancel();
  }

  #give(text: string | undefined): Read {
    if (text !== undefined) return { done: false, value: encoder.encode(text) };
    this.#end();
    return { done: true };
  }

  #end(): void {
    this.#isOver = true;
    this.stage.abort.delete(this);
  }
}

/** One record of a stream and the pause before it; no text: the stream ends. */
type Step = { text?: string; pauseMs: number };

/** The SSE records of a play, in the order of dialects.md 1.4, with the pauses before them. Ends early where its fault says so. */
function* stepsOf(play: Play, stage: Stage): Generator<Step, undefined> {
  const { timing, fault } = play;
  const write = (delta: object, finish: object = { finish_reason: null }) =>
    record(stage, {
      choices: [{ index: 0, delta, logprobs: null, ...finish }],
      ...(stage.wantsUsage && { usage: null }),
    });
  yield { text: write({ role: "assistant", content: "" }), pauseMs: 0 };
  let sent = 0;
  let pauseMs = 0;
  for (const { delta, chunk } of deltasOf(play.blocks)) {
    if (fault && chunk && sent === fault.after) break;
    if (chunk && sent > 0) pauseMs += timing.chunkDelayMs;
    yield { text: write(delta), pauseMs };
    pauseMs = chunk && ++sent === 1 ? timing.silenceMs : 0;
  }
  if (fault?.kind === "cut") {
    yield { pauseMs };
    return undefined;
  }
  if (fault?.kind === "error") {
    yield { text: `data: ${JSON.stringify(errorBody(fault.error))}\n\n`, pauseMs };
    return undefined;
  }
  yield { text: write({}, finishOf(play)), pauseMs };
  if (stage.wantsUsage) yield { text: record(stage, { choices: [], usage: usageRecord(play.usage) }), pauseMs: 0 };
  yield { text: "data: [DONE]\n\n", pauseMs: 0 };
  return undefined;
}

function record({ heading: { id, created, model } }: Stage, fields: object): string {
  return `data: ${JSON.stringify({ id, object: "chat.completion.chunk", created, model, ...fields })}\n\n`;
}

/** The deltas of all blocks. A tool call opens with its id and name, which is no chunk; its arguments follow. */
function* deltasOf(blocks: readonly Block[]): Generator<{ delta: object; chunk: boolean }> {
  let index = 0;
  for (const block of blocks) {
    if (block.type !== "tool_call") {
      const field = block.type === "text" ? "content" : "reasoning_content";
      for (const chunk of block.chunks) yield { delta: { [field]: chunk }, chunk: true };
      continue;
    }
    const opening = { index, id: block.id, type: "function", function: { name: block.name, arguments: "" } };
    yield { delta: { tool_calls: [opening] }, chunk: false };
    for (const chunk of block.chunks) {
      yield { delta: { tool_calls: [{ index, function: { arguments: chunk } }] }, chunk: true };
    }
    index++;
  }
}
