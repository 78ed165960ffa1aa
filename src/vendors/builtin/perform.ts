import type { TokenCounts } from "../../canon/usage.ts";
import type { Abort, Abortable } from "../../lib/abort.ts";
import type { Sleeper, Wait } from "../../lib/alarms.ts";
import { type Clock, wakeAfter } from "../../lib/clock.ts";
import type { Fields } from "../../lib/http1/fields.ts";
import { type Answer, type Read, type ReadTaker, readText } from "../answer.ts";
import { pause } from "./pause.ts";
import type { Block, Play, PlayError } from "./play.ts";

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

/** A stop sequence that matched stands in both fields that vendors have for it: one that reads `STOP` is a plain word in the first. */
const finishOf = ({ finish, stopReason }: Play) => ({
  finish_reason: finish,
  stop_reason: stopReason ?? null,
  ...(stopReason !== undefined && { matched_stop: stopReason }),
});

function usageRecord({ input, cacheRead, cacheWrite, output, reasoning }: TokenCounts) {
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
const encoder = new TextEncoder();

/**
 * The event stream of a play, written only as fast as it is read: one record for each read, and nothing ahead. Thousands of silent streams may wait on
 * this side of a client: no promise, no timer and no suspended function for each, but what stands here.
 */
class PlayedStream implements Answer, Abortable, Sleeper {
  readonly status = 200;
  readonly headers = STREAM_HEADERS;
  readonly #steps: Steps;
  /** Waits for the next record. */
  #taker: ReadTaker | undefined;
  /** The pause before it; it is written when that is over. */
  #pause: Wait | undefined;
  #isOver = false;

  constructor(
    play: Play,
    private readonly stage: Stage,
  ) {
    this.#steps = new Steps(play, stage);
    stage.abort.add(this);
  }

  /** Like a connection: an abort fails the read that waits, and every later one, at once. */
  onAbort(reason: unknown): void {
    this.#pause?.stop();
    this.#handOver()?.onBroken(reason);
  }

  read(): Promise<Read> {
    return new Promise((resolve, reject) => {
      this.readTo({
        onBytes: (value) => resolve({ done: false, value }),
        onEnd: () => resolve({ done: true }),
        onBroken: reject,
      });
    });
  }

  readTo(taker: ReadTaker): void {
    this.#taker = taker;
    const { abort, clock } = this.stage;
    const pauseMs = abort.aborted || this.#isOver ? 0 : this.#steps.pauseMs;
    // Told later in any case, as Answer has it.
    if (pauseMs <= 0) queueMicrotask(() => this.wake());
    else this.#pause = wakeAfter(clock, pauseMs, this);
  }

  /** Its pause is over. */
  wake(): void {
    this.#pause = undefined;
    const { abort } = this.stage;
    const taker = this.#handOver();
    if (!taker) return;
    if (abort.aborted) taker.onBroken(abort.reason);
    else this.#give(taker);
  }

  text(maxBytes: number): Promise<string> {
    return readText(this, maxBytes);
  }

  cancel(): void {
    this.#pause?.stop();
    this.#end();
  }

  finish(): void {
    // There is no connection for which the rest would have to be read.
    this.cancel();
  }

  #give(taker: ReadTaker): void {
    const text = this.#isOver ? undefined : this.#steps.take();
    if (text === undefined) {
      this.#end();
      taker.onEnd();
      return;
    }
    const bytes = encoder.encode(text);
    taker.onBytes(bytes, 0, bytes.length);
  }

  #handOver(): ReadTaker | undefined {
    const taker = this.#taker;
    this.#taker = undefined;
    return taker;
  }

  #end(): void {
    this.#isOver = true;
    this.stage.abort.delete(this);
  }
}

/** The SSE records of a play, in the order of dialects.md 1.4, with the pauses before them. Ends early where its fault says so. */
class Steps {
  #part: "opening" | "blocks" | "usage" | "terminator" | "over" = "opening";
  /** Where the next delta stands, and how many calls stand before it. */
  #block = 0;
  #chunk = 0;
  #calls = 0;
  /** The call of this block has its id and name, which is no chunk; its arguments follow. */
  #isOpened = false;
  /** Chunks that were given. */
  #given = 0;
  /** The silence behind what was given last, ms. */
  #silenceMs = 0;

  constructor(
    private readonly play: Play,
    private readonly stage: Stage,
  ) {
    this.#skipEnded();
  }

  /** The pause before the next record, ms. */
  get pauseMs(): number {
    const isNextChunk = this.#part === "blocks" && this.#given > 0 && !this.#opens && this.#hasDelta;
    return this.#silenceMs + (isNextChunk ? this.play.timing.chunkDelayMs : 0);
  }

  /** The next record; undefined: the stream has ended. */
  take(): string | undefined {
    const { play, stage } = this;
    if (this.#part === "opening") {
      this.#part = "blocks";
      return this.#write({ role: "assistant", content: "" });
    }
    if (this.#part === "blocks") return this.#hasDelta ? this.#write(this.#takeDelta()) : this.#takeEnding();
    if (this.#part === "usage") {
      this.#part = "terminator";
      return record(stage, { choices: [], usage: usageRecord(play.usage) });
    }
    if (this.#part === "over") return undefined;
    this.#part = "over";
    return "data: [DONE]\n\n";
  }

  /** The next delta opens a call. */
  get #opens(): boolean {
    return !this.#isOpened && this.play.blocks[this.#block]?.type === "tool_call";
  }

  get #hasDelta(): boolean {
    const { blocks, fault } = this.play;
    const isBroken = fault !== undefined && this.#given === fault.after && !this.#opens;
    return this.#block < blocks.length && !isBroken;
  }

  #takeDelta(): object {
    const block = this.play.blocks[this.#block] as Block;
    const index = this.#calls;
    this.#silenceMs = 0;
    if (block.type === "tool_call" && !this.#isOpened) {
      this.#isOpened = true;
      this.#skipEnded();
      const opening = { index, id: block.id, type: "function", function: { name: block.name, arguments: "" } };
      return { tool_calls: [opening] };
    }
    const chunk = block.chunks[this.#chunk++] as string;
    if (++this.#given === 1) this.#silenceMs = this.play.timing.silenceMs;
    this.#skipEnded();
    if (block.type === "tool_call") return { tool_calls: [{ index, function: { arguments: chunk } }] };
    return { [block.type === "text" ? "content" : "reasoning_content"]: chunk };
  }

  /** On to the next delta. */
  #skipEnded(): void {
    const { blocks } = this.play;
    for (let block = blocks[this.#block]; block && !this.#opens; block = blocks[this.#block]) {
      if (this.#chunk < block.chunks.length) return;
      if (block.type === "tool_call") this.#calls++;
      this.#block++;
      this.#chunk = 0;
      this.#isOpened = false;
    }
  }

  #takeEnding(): string | undefined {
    const { play, stage } = this;
    const { fault } = play;
    this.#silenceMs = 0;
    this.#part = fault ? "over" : stage.wantsUsage ? "usage" : "terminator";
    if (fault?.kind === "cut") return undefined;
    if (fault) return `data: ${JSON.stringify(errorBody(fault.error))}\n\n`;
    return this.#write({}, finishOf(play));
  }

  #write(delta: object, finish: object = { finish_reason: null }): string {
    return record(this.stage, {
      choices: [{ index: 0, delta, logprobs: null, ...finish }],
      ...(this.stage.wantsUsage && { usage: null }),
    });
  }
}

function record({ heading: { id, created, model } }: Stage, fields: object): string {
  return `data: ${JSON.stringify({ id, object: "chat.completion.chunk", created, model, ...fields })}\n\n`;
}
