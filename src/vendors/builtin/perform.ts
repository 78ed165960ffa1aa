import type { Clock } from "../../lib/clock.ts";
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
  signal: AbortSignal;
};

/** A play as a chat vendor's HTTP answer (dialects.md 1.3, 1.4). Rejects with the signal's reason when aborted before its first byte. */
export async function perform(play: Play, stage: Stage): Promise<Response> {
  await pause(stage.clock, play.timing.delayMs, stage.signal);
  const { fault } = play;
  if (fault?.kind === "error" && (fault.after === undefined || !stage.stream)) return errorResponse(fault.error);
  return stage.stream ? streamResponse(play, stage) : wholeResponse(play, stage);
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
  await pause(stage.clock, timing.silenceMs + timing.chunkDelayMs * Math.max(0, chunks - 1), stage.signal);
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

/** An event stream, written only as fast as it is read: one record for each pull, and nothing ahead. */
function streamResponse(play: Play, stage: Stage): Response {
  const encoder = new TextEncoder();
  const stopped = new AbortController();
  const { signal } = stage;
  const records = playRecords(play, { ...stage, signal: stopped.signal });
  const onAbort = () => stopped.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // Like a connection: an abort fails the read that waits, and every later one, at once.
        stopped.signal.addEventListener("abort", () => controller.error(stopped.signal.reason), { once: true });
        if (signal.aborted) onAbort();
      },
      async pull(controller) {
        const { done, value } = await records.next();
        if (!done) return controller.enqueue(encoder.encode(value));
        signal.removeEventListener("abort", onAbort);
        controller.close();
      },
      cancel() {
        signal.removeEventListener("abort", onAbort);
        stopped.abort();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}

/** The SSE records of a play, in the order of dialects.md 1.4, with its pauses between them. Ends early where its fault says so. */
async function* playRecords(play: Play, stage: Stage): AsyncGenerator<string, undefined> {
  const { timing, fault } = play;
  const write = (delta: object, finish: object = { finish_reason: null }) =>
    record(stage, {
      choices: [{ index: 0, delta, logprobs: null, ...finish }],
      ...(stage.wantsUsage && { usage: null }),
    });
  yield write({ role: "assistant", content: "" });
  let sent = 0;
  for (const { delta, chunk } of deltasOf(play.blocks)) {
    if (fault && chunk && sent === fault.after) break;
    if (chunk && sent > 0) await pause(stage.clock, timing.chunkDelayMs, stage.signal);
    yield write(delta);
    if (chunk && ++sent === 1) await pause(stage.clock, timing.silenceMs, stage.signal);
  }
  if (fault?.kind === "cut") return undefined;
  if (fault?.kind === "error") {
    yield `data: ${JSON.stringify(errorBody(fault.error))}\n\n`;
    return undefined;
  }
  yield write({}, finishOf(play));
  if (stage.wantsUsage) yield record(stage, { choices: [], usage: usageRecord(play.usage) });
  yield "data: [DONE]\n\n";
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
