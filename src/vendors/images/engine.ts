import { isObject } from "../../lib/json.ts";
import { until } from "../../lib/signals.ts";
import { isOk } from "../answer.ts";
import type { ImageRequest, ImageStep, ImageUpstream } from "../image-upstream.ts";
import type { Vendor } from "../vendor.ts";
import { type ApiTools, call as ask, TooLarge } from "./call.ts";
import { BLOCKED, failed, readFailure, readWords, UNREADABLE } from "./failure.ts";
import { fetchImage, type GuardedFetch, type Taken, takeBase64, takeBytes } from "./result.ts";
import {
  type Answer,
  type Call,
  type ImageModel,
  type ImageRow,
  type Reading,
  RequestFault,
  refuseSource,
  type WireContext,
} from "./wire.ts";

/** Most calls that one step may take: an upload, the request, a second try, the result. */
const MAX_CALLS = 5;
/** How long one poll may take, ms; the work goes on meanwhile. */
const POLL_CALL_MS = 20_000;
/** How long a call that tells a vendor to stop may take, ms: nobody waits for it. */
const CANCEL_MS = 5_000;

/** What the image vendors need from outside. */
export type ImageTools = ApiTools & {
  fetchResult: GuardedFetch;
  /** For one poll, ms. Default: {@link POLL_CALL_MS}. */
  pollCallMs?: number;
  /** Told why work could not be stopped that nobody waits for any more. */
  onFault(thrown: unknown): void;
};

/** What a call is for: `create` may draw something, so that its failure may have cost; a `poll` never does, and may take `limitMs`. */
type Phase = { name: "create" } | { name: "poll"; limitMs: number };

/** The facts of a model: those of the first of the row's models that fits its name, but for what the operator says of the vendor. */
function modelOf(row: ImageRow, vendor: Vendor, name: string): ImageModel {
  const found = row.models.find(({ match }) => match.test(name)) ?? row.models.at(-1)!;
  const { ratios, takesSource } = vendor.drawing ?? {};
  return { ...found, ...(ratios && { ratios }), ...(takesSource !== undefined && { takesSource }) };
}

/** Makes the calls that one row's wire describes, and reads the answers by it. */
class Engine {
  constructor(
    private readonly vendor: Vendor,
    private readonly row: ImageRow,
    private readonly tools: ImageTools,
  ) {}

  context(model: string): WireContext {
    const { baseUrl, drawing } = this.vendor;
    return {
      model: modelOf(this.row, this.vendor, model),
      baseUrl,
      ...(drawing?.workflow && { workflow: drawing.workflow }),
    };
  }

  async create(request: ImageRequest, signal: AbortSignal): Promise<ImageStep> {
    signal.throwIfAborted();
    const { wire } = this.row;
    const context = this.context(request.model);
    const create = () => {
      if (!context.model.takesSource) refuseSource(request);
      return wire.create(request, context);
    };
    try {
      return await this.#follow(create, { name: "create" }, signal);
    } catch (thrown) {
      if (signal.aborted && wire.abandon) this.#abandon(wire.abandon(request, context));
      throw thrown;
    }
  }

  resume(resumeId: string, request: Omit<ImageRequest, "source">, signal: AbortSignal): Promise<ImageStep> {
    const { wire } = this.row;
    const context = this.context(request.model);
    const phase: Phase = { name: "poll", limitMs: this.tools.pollCallMs ?? POLL_CALL_MS };
    return this.#follow(() => wire.resume!(resumeId, request, context), phase, signal);
  }

  async cancel(resumeId: string | undefined, signal: AbortSignal): Promise<void> {
    const { cancel } = this.row.wire;
    if (resumeId === undefined || !cancel) return;
    await this.#stop(cancel(resumeId, this.context("")), signal);
  }

  /** Stops work that nobody waits for: what goes wrong is only logged. */
  #abandon(call: Call): void {
    this.#stop(call, new AbortController().signal).catch((thrown) => this.tools.onFault(thrown));
  }

  async #stop(call: Call, signal: AbortSignal): Promise<void> {
    const step = await this.#follow(() => call, { name: "poll", limitMs: CANCEL_MS }, signal);
    if (step.kind === "failed") throw new Error(step.message);
  }

  /** Asks call after call until there is a step. */
  async #follow(first: () => Call, phase: Phase, signal: AbortSignal): Promise<ImageStep> {
    let call: Call | undefined;
    try {
      call = first();
      for (let calls = 0; calls < MAX_CALLS; calls++) {
        const step = await this.#ask(call, phase, signal);
        if (!("next" in step)) return step;
        call = step.next;
      }
      return failed("The vendor's answers lead to no image.", "maybe");
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof RequestFault) return fault(thrown.message);
      if (thrown instanceof TooLarge) return failed(thrown.message, "maybe");
      if (isTimeout(thrown)) return failed("The vendor does not answer.", phase.name === "poll" ? "no" : "maybe");
      throw thrown;
    }
  }

  #call(call: Call, signal: AbortSignal): Promise<Answer> {
    return ask(this.vendor, this.row, call, this.tools, signal);
  }

  /**
   * The answer to a call that orders an image. Where the signal is aborted it rejects at once, while the call goes on for a while: only by the id in the answer
   * can the vendor be told to stop.
   */
  async #order(call: Call, signal: AbortSignal): Promise<Answer> {
    if (call.prepares || !this.row.wire.cancel) return this.#call(call, signal);
    const patience = new AbortController();
    const answering = this.#call(call, patience.signal);
    try {
      return await until(signal, () => answering);
    } catch (thrown) {
      if (signal.aborted) {
        setTimeout(() => patience.abort(thrown), CANCEL_MS).unref();
        answering.then((answer) => this.#stopOrdered(call, answer)).catch((late) => this.tools.onFault(late));
      }
      throw thrown;
    }
  }

  async #stopOrdered(call: Call, answer: Answer): Promise<void> {
    if (!isOk(answer)) return;
    const reading = call.read(answer);
    if (reading.kind === "pending") await this.cancel(reading.resumeId, new AbortController().signal);
  }

  async #ask(call: Call, phase: Phase, signal: AbortSignal): Promise<ImageStep | { next: Call }> {
    const isPoll = phase.name === "poll";
    const answer = isPoll
      ? await this.#call(call, AbortSignal.any([signal, AbortSignal.timeout(phase.limitMs)]))
      : await this.#order(call, signal);
    if (!isOk(answer)) {
      const drewNothing = isPoll || call.prepares === true;
      const step = readFailure(answer, this.row.refusal, { drewNothing, now: this.tools.clock.now() });
      // Right after the order not every server of a vendor knows the work yet: a 404 does not mean that the work is gone.
      return isPoll && answer.status === 404 && step.kind === "failed" ? failed(step.message, "no") : step;
    }
    let reading: Reading;
    try {
      reading = call.read(answer);
    } catch (thrown) {
      if (thrown instanceof RequestFault) throw thrown;
      return failed(UNREADABLE, "maybe");
    }
    // A web page, half an answer or an empty one comes from a proxy in front of the vendor, and tells nothing of the work.
    const isSilent = reading.kind === "failed" && reading.words === undefined && saysNothing(answer);
    if (isPoll && isSilent) return failed(UNREADABLE, "no");
    return this.#take(reading, phase, signal);
  }

  async #take(reading: Reading, phase: Phase, signal: AbortSignal): Promise<ImageStep | { next: Call }> {
    if (reading.kind === "next") return { next: reading.call };
    if (reading.kind === "pending") return reading;
    if (reading.kind === "blocked") return BLOCKED;
    if (reading.kind === "failed") return readWords(reading.words, reading.isProse ? {} : this.row.refusal);
    let taken: Taken;
    if (reading.kind === "bytes") taken = takeBytes(reading.bytes);
    else if (reading.kind === "base64") taken = takeBase64(reading.data);
    else taken = await fetchImage(reading.url, { vendor: this.vendor, tools: this.tools, signal });
    if ("bytes" in taken) return { kind: "image", bytes: taken.bytes };
    // Where the work has a name, its result can be asked for again.
    return failed(taken.refused, taken.passing && phase.name === "poll" ? "no" : "maybe");
  }
}

const saysNothing = ({ json }: Answer) => json == null || (isObject(json) && Object.keys(json).length === 0);
const fault = (message: string): ImageStep => ({ kind: "failed", message, ran: "no", fault: true });
const isTimeout = (thrown: unknown) => thrown instanceof DOMException && thrown.name === "TimeoutError";

/** What draws for a vendor, by its row. It keeps nothing between two calls. */
export function createUpstream(vendor: Vendor, row: ImageRow, tools: ImageTools): ImageUpstream {
  const engine = new Engine(vendor, row, tools);
  const { wire } = row;
  return {
    recovery: wire.recovery,
    traits(name) {
      const { ratios, takesSource } = modelOf(row, vendor, name);
      return { ratios, takesSource };
    },
    create: (request, signal) => engine.create(request, signal),
    ...(wire.resume && { resume: (id, request, signal) => engine.resume(id, request, signal) }),
    ...(wire.cancel && { cancel: (id, signal) => engine.cancel(id, signal) }),
  };
}
