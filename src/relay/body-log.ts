import { MAX_LOOKED_THROUGH, type RequestLog } from "../observe/request-log.ts";
import type { GenerateRequest, Reply } from "./job.ts";

/** Notes prompts and answers in the request log, for an operator who has switched that on. */
export class BodyLog {
  readonly #texts = new WeakMap<GenerateRequest, string>();

  constructor(private readonly requests: Pick<RequestLog, "addBodies">) {}

  /** From now on the request's body is remembered once it is read. */
  watch(request: GenerateRequest): void {
    const read = request.readBody;
    request.readBody = async () => {
      const body = await read();
      this.#texts.set(request, body.text);
      return body;
    };
  }

  /** The same answer; it is noted with its request, a stream when it is over. */
  note(request: GenerateRequest, reply: Reply): Reply {
    const text = this.#texts.get(request) ?? "";
    if (reply.kind === "whole") {
      this.requests.addBodies(request.requestId, text, reply.body);
      return reply;
    }
    const { chunks } = reply;
    let seen = "";
    let over = false;
    const end = () => {
      if (!over) this.requests.addBodies(request.requestId, text, seen);
      over = true;
    };
    const noted: AsyncIterator<string, undefined> = {
      async next() {
        const step = await chunks.next();
        if (step.done) end();
        else if (seen.length < MAX_LOOKED_THROUGH) seen += step.value;
        return step;
      },
      async return() {
        end();
        await chunks.return?.();
        return { done: true, value: undefined };
      },
    };
    return { ...reply, chunks: noted };
  }
}
