import { GatewayError } from "../canon/errors.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { deadline, sleep, until } from "../lib/signals.ts";
import { errorFields, type Log } from "../observe/log.ts";
import type { ImageRequest, ImageStep, ImageUpstream } from "../vendors/image-upstream.ts";
import { ranOf } from "../vendors/retry-policy.ts";
import { fenceOf } from "./closing.ts";
import { type ImageFiles, newFileName, typeOfFile } from "./files.ts";
import { BadImage, inspectImage } from "./inspect-image.ts";
import type { JobError, JobRow } from "./job.ts";
import type { JobStore } from "./store.ts";

/** One call that asks for an image, ms (reliability 5.2); work that a vendor does by name is bounded by the job's own time. */
export const CREATE_MS = 180_000;
/** A vendor's own wish of when to be asked again is kept within these, ms. */
const LEAST_POLL_MS = 250;
const MOST_POLL_MS = 15_000;
/** Polls in a row that may fail before the job does: the work goes on meanwhile. */
const MAX_POLL_FAULTS = 8;

/** How the work on a job ended. */
export type Ending =
  /** The image is in this file; `file` is what the job's row says by now. */
  | { kind: "done"; file: string }
  | { kind: "failed" | "blocked"; error: JobError }
  /** This vendor refused the gateway, and not the request: another one may be asked. */
  | { kind: "failed"; error: JobError; elsewhere: true }
  /** It refused the request, which is no failing of its own. */
  | { kind: "failed"; error: JobError; refused: true }
  /** Nothing ran: it may be tried again. `busy`: the vendor said so itself, which is no attempt; `limited`: since it is asked too much. */
  | { kind: "not-run"; error: JobError; busy: boolean; limited?: true; retryAfterSeconds?: number }
  /** The job is not this worker's any more. */
  | { kind: "lost" };

/** What the work brought: an image that has yet to be stored, or its end. */
type Drawn = Ending | (ImageStep & { kind: "image" });

export type WorkParts = { jobs: JobStore; writer: Writer; files: ImageFiles; clock: Clock; log: Log };

/** Why the wait for a call was given up: shown as the job's error. */
class TimeOver extends Error {
  override readonly name = "TimeOver";
}

const failed = (code: JobError["code"], message: string): Ending => ({ kind: "failed", error: { code, message } });

/** What is asked of the vendor for a job, but for its source. */
function toRequest(job: JobRow): Omit<ImageRequest, "source"> {
  const { width, height, style, ratio } = job;
  return {
    ...{ model: job.upstreamModel, prompt: job.prompt, ratio, key: job.token },
    ...(width !== null && height !== null && { size: { width, height } }),
    ...(style !== null && { style }),
  };
}

/** The work on one claimed job: asks its vendor, follows what it does, and puts the result into a file. */
export class ImageWork {
  /** The vendor's own name of the work, once it gave one. */
  vendorJob: string | undefined;

  constructor(
    private readonly job: JobRow,
    private readonly upstream: ImageUpstream,
    private readonly parts: WorkParts,
  ) {
    this.vendorJob = job.vendorJob ?? undefined;
  }

  /** Rejects with the signal's reason once that is aborted, and as the writer does; what the vendor does wrong is an ending. */
  async run(signal: AbortSignal): Promise<Ending> {
    let drawn: Drawn;
    try {
      drawn = this.vendorJob === undefined ? await this.#create(signal) : await this.#resume(this.vendorJob, signal);
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof TimeOver)) throw thrown;
      return failed("timeout", "The vendor took too long. Nothing was charged.");
    }
    signal.throwIfAborted();
    return drawn.kind === "image" ? this.#keep(drawn.bytes, signal) : drawn;
  }

  async #create(signal: AbortSignal): Promise<Drawn> {
    const request: ImageRequest = toRequest(this.job);
    const { sourceFile } = this.job;
    if (sourceFile !== null) {
      const bytes = await this.#readSource(sourceFile, signal);
      if (!(bytes instanceof Uint8Array)) return bytes;
      request.source = { bytes, type: typeOfFile(sourceFile) };
      request.prompt = this.#reframing(request);
    }
    const limit = deadline(this.parts.clock, CREATE_MS, () => new TimeOver(), signal);
    let step: ImageStep;
    try {
      // It ends with its signal even where the vendor's code does not look at it: a slot must not hang.
      step = await until(limit.signal, () => this.upstream.create(request, limit.signal));
    } catch (thrown) {
      limit.signal.throwIfAborted();
      return this.#explain(thrown);
    } finally {
      limit.end();
    }
    return step.kind === "pending" ? this.#follow(step, signal) : toDrawn(step);
  }

  /** The source's bytes, or how the job ended without them. */
  async #readSource(file: string, signal: AbortSignal): Promise<Uint8Array | Ending> {
    try {
      const bytes = await until(signal, () => this.parts.files.read(file));
      return bytes ?? failed("source_gone", "The source image is gone.");
    } catch (thrown) {
      signal.throwIfAborted();
      this.#tellFile(thrown);
      return failed("internal_error", "The source image could not be read. Nothing was charged.");
    }
  }

  #tellFile(thrown: unknown): void {
    this.parts.log.error("image-file", { job: this.job.id, ...errorFields(thrown) });
  }

  /** The prompt; where it is the source's own, with a sentence behind it that says what to do with the image (dialects.md 7). */
  #reframing({ prompt, ratio }: ImageRequest): string {
    const source = this.parts.jobs.find(this.job.sourceJob ?? "");
    if (source?.prompt !== prompt) return prompt;
    return `${prompt}\n\nRe-frame the given image to the aspect ratio ${ratio}. Keep what it shows.`;
  }

  /** Keeps the vendor's name of the work, in a commit of its own as soon as it is known, and asks until it is done. */
  async #follow(pending: ImageStep & { kind: "pending" }, signal: AbortSignal): Promise<Drawn> {
    this.vendorJob = pending.resumeId;
    const { jobs, writer } = this.parts;
    const mine = await writer.runSingle(() => jobs.keepVendorJob(fenceOf(this.job), pending.resumeId));
    if (!mine) return { kind: "lost" };
    await this.#pause(pending.pollAfterMs, signal);
    return this.#resume(pending.resumeId, signal);
  }

  async #resume(name: string, signal: AbortSignal): Promise<Drawn> {
    const { resume } = this.upstream;
    if (!resume) return failed("interrupted", INTERRUPTED);
    for (let faults = 0; ; ) {
      const step = await this.#poll(name, signal);
      signal.throwIfAborted();
      if (step.kind === "not-run") {
        if (++faults > MAX_POLL_FAULTS) return { kind: "failed", error: step.error };
        await this.#pause((step.retryAfterSeconds ?? faults) * 1_000, signal);
      } else if (step.kind === "pending") {
        faults = 0;
        await this.#pause(step.pollAfterMs, signal);
      } else return toDrawn(step);
    }
  }

  /** One look at the work. A look that failed says nothing about the work itself: it is `not-run`. */
  async #poll(name: string, signal: AbortSignal): Promise<ImageStep | (Ending & { kind: "not-run" })> {
    try {
      const step = await until(signal, () => this.upstream.resume!(name, toRequest(this.job), signal));
      if (step.kind !== "failed" || step.fault || step.ran === "maybe") return step;
      const error: JobError = { code: "upstream_error", message: step.message };
      return { kind: "not-run", error, busy: true, ...retryAfter(step.retryAfterSeconds) };
    } catch (thrown) {
      signal.throwIfAborted();
      const { error } = this.#explain(thrown);
      return { kind: "not-run", error, busy: true };
    }
  }

  /** What an error of the vendor's wire means. Anything unexpected is logged, and told without its words. */
  #explain(thrown: unknown): Ending & { kind: "not-run" | "failed" } {
    if (!(thrown instanceof GatewayError)) {
      this.parts.log.error("image-job", { job: this.job.id, vendor: this.job.vendor, ...errorFields(thrown) });
      const error: JobError = { code: "internal_error", message: "Something went wrong inside the gateway." };
      return { kind: "failed", error };
    }
    const { code, message, retryAfterSeconds } = thrown;
    const error: JobError = { code: "upstream_error", message };
    if (BUSY.has(code)) {
      const limited = code === "rate_limit_exceeded" ? { limited: true as const } : {};
      return { kind: "not-run", error, busy: true, ...limited, ...retryAfter(retryAfterSeconds) };
    }
    const unrun = ranOf(thrown) === "no";
    if (unrun && code === "upstream_unreachable") return { kind: "not-run", error, busy: false };
    return unrun && ELSEWHERE.has(code) ? { kind: "failed", error, elsewhere: true } : { kind: "failed", error };
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await sleep(this.parts.clock, Math.min(MOST_POLL_MS, Math.max(LEAST_POLL_MS, ms)), signal);
    signal.throwIfAborted();
  }

  /**
   * Writes the result into a file, and the file's name into the job's row, before the job counts as done: after a crash the next start finds either the whole
   * file, or a job to be recovered.
   */
  async #keep(bytes: Uint8Array, signal: AbortSignal): Promise<Ending> {
    const { jobs, writer, files } = this.parts;
    let file: string;
    try {
      file = newFileName(inspectImage(bytes).type);
    } catch (thrown) {
      if (!(thrown instanceof BadImage)) throw thrown;
      return failed("invalid_result", thrown.message);
    }
    const stored = { file, sha256: new Bun.CryptoHasher("sha256").update(bytes).digest(), bytes: bytes.length };
    const saving = files.save(file, bytes);
    const [noted, saved] = await Promise.allSettled([
      writer.runSingle(() => jobs.fetch(fenceOf(this.job), stored)),
      until(signal, () => saving),
    ]);
    if (noted.status === "rejected") throw noted.reason;
    if (saved.status === "rejected" && signal.aborted) {
      // Not waited for: the file that is written after all is removed again, here or by a sweep.
      saving.then(() => files.remove(file)).catch((thrown) => this.#tellFile(thrown));
      throw signal.reason;
    }
    if (saved.status === "rejected") {
      this.#tellFile(saved.reason);
      return failed("internal_error", "The image could not be stored. Nothing was charged.");
    }
    if (noted.value) return { kind: "done", file };
    await files.remove(file);
    return { kind: "lost" };
  }
}

/** Errors that, where nothing ran, lie in the vendor's key, account or address. */
const ELSEWHERE: ReadonlySet<string> = new Set(["upstream_auth", "upstream_error"]);

/** Errors by which a vendor says that it has taken nothing on. */
const BUSY: ReadonlySet<string> = new Set(["upstream_overloaded", "rate_limit_exceeded"]);

export const INTERRUPTED =
  "The gateway stopped while the vendor worked on this image. Nothing was charged, and it is safe to submit it again.";

const retryAfter = (seconds: number | undefined) => (seconds === undefined ? {} : { retryAfterSeconds: seconds });

/** How the job goes on after the vendor's last word. */
function toDrawn(step: Exclude<ImageStep, { kind: "pending" }>): Drawn {
  if (step.kind === "image") return step;
  if (step.kind === "blocked") return { kind: "blocked", error: { code: "content_policy", message: step.message } };
  const error: JobError = { code: "upstream_error", message: step.message };
  if (step.ran === "no" && step.elsewhere) return { kind: "failed", error, elsewhere: true };
  if (step.fault) return { kind: "failed", error, refused: true };
  if (step.ran === "maybe") return { kind: "failed", error };
  const after = { ...retryAfter(step.retryAfterSeconds), ...(step.limited && { limited: true as const }) };
  return { kind: "not-run", error, busy: step.retryAfterSeconds !== undefined, ...after };
}
