import type { Caller } from "../../accounts/caller.ts";
import { requireModel } from "../../accounts/scopes.ts";
import { GatewayError, invalidField } from "../../canon/errors.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Entry } from "../../catalog/entry.ts";
import { unknownFields } from "../../dialects/loss/unknown-fields.ts";
import { showPaths } from "../../dialects/translate.ts";
import type { ImageOrder } from "../../jobs/accept.ts";
import { nearestRatio, readSize, usualRatio } from "../../jobs/aspect-ratio.ts";
import type { Drawing, ImageJobs } from "../../jobs/image-jobs.ts";
import type { JobRow } from "../../jobs/job.ts";
import { isObject } from "../../lib/json.ts";
import { type Pixels, readRatio } from "../../lib/pixels.ts";
import { refuseModel } from "../../relay/find-entry.ts";
import { MAX_PROMPT } from "../../wire/bounds.ts";
import { checkImageRequest, ImageRequestBody } from "../../wire/images.ts";
import { readLimit } from "../query.ts";

/** Longest wait that a client may ask for, seconds. */
export const MAX_WAIT_SECONDS = 60;
/** Jobs of a page when no limit is asked for, and the most (contract 8). */
export const DEFAULT_PAGE = 20;
export const MAX_PAGE = 100;

/** The image model of exactly this ID. Throws GatewayError: model_not_found, vendor_not_configured, invalid_request for one that draws nothing. */
function findImageModel(catalog: Catalog, model: string): Entry {
  const entry = catalog.find(model);
  if (entry?.modality === "image" || (entry?.uncharted && entry.modalityAssumed)) return entry;
  if (entry) throw invalidField("model", `The model ${entry.id} is of modality ${entry.modality}: it draws no images.`);
  return refuseModel(catalog, model, "GET /v1/models?modality=image");
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** The caller's own finished job of that id. Throws GatewayError (not_found): the same for every other one. */
function findSource(jobs: ImageJobs, caller: Caller, id: string | undefined): (JobRow & { file: string }) | undefined {
  if (id === undefined) return undefined;
  const source = jobs.find(caller, id);
  if (source?.state === "succeeded" && source.file !== null) return { ...source, file: source.file };
  throw new GatewayError("not_found", "There is no finished image job of this id.", { param: "source_job_id" });
}

/** More than 32,000 characters, however many units of text each of them takes. */
const isTooLong = (prompt: string) => prompt.length > MAX_PROMPT && [...prompt].length > MAX_PROMPT;

function readPrompt(body: Record<string, unknown>, source: JobRow | undefined): string {
  const prompt = textOf(body["prompt"]) ?? source?.prompt;
  if (prompt === undefined) throw invalidField("prompt", "prompt is required.");
  if (isTooLong(prompt)) throw invalidField("prompt", `prompt may have ${MAX_PROMPT} characters at the most.`);
  return prompt;
}

/** The ratio that is drawn: of the asked size, else the source's, else the model's own (contract 8, dialects.md 7). */
function chooseRatio(size: Pixels | undefined, source: JobRow | undefined, ratios: readonly string[]): string {
  if (size) return nearestRatio(size, ratios);
  return source ? nearestRatio(readRatio(source.ratio), ratios) : usualRatio(ratios);
}

const SIZE_FAULT =
  'size must be pixels such as 1024x1536, each side of 2 to 5 digits and none 8 times the other, or "auto".';

function checkShape(body: Record<string, unknown>): void {
  const { n } = body;
  if (n !== undefined && n !== null && n !== 1) throw invalidField("n", "n must be 1: one image for each request.");
  const found = checkImageRequest(body);
  if (found) throw invalidField(found.param, `${found.message}.`);
}

/**
 * What a request for an image comes to. The order of refusals is that of every endpoint: what is not there or not allowed, what cannot be paid for,
 * then the body's own faults. Throws GatewayError: model_not_found, not_found, permission_denied, deposit_required, model_unpriced,
 * vendor_not_configured, insufficient_quota, allowance_exhausted, invalid_request.
 */
export function readOrder(body: unknown, caller: Caller, jobs: ImageJobs, catalog: Catalog): ImageOrder {
  const fields = isObject(body) ? body : {};
  const source = findSource(jobs, caller, textOf(fields["source_job_id"]));
  const model = textOf(fields["model"]) ?? source?.model;
  if (model === undefined) {
    // The source that was to name it may be no text at all.
    checkShape(fields);
    throw invalidField("model", "model is required: the ID of an image model.");
  }
  const entry = findImageModel(catalog, model);
  if (caller.narrow) requireModel(caller, entry.id);
  const drawing = jobs.drawingOf(entry, source !== undefined);
  jobs.acceptance.checkMoney(caller, entry);
  return { caller, entry, route: drawing.route, ...readWish(fields, source, drawing) };
}

function readWish(fields: Record<string, unknown>, source: (JobRow & { file: string }) | undefined, drawing: Drawing) {
  checkShape(fields);
  const prompt = readPrompt(fields, source);
  const size = readSize(textOf(fields["size"]));
  if (size === "bad") throw invalidField("size", SIZE_FAULT);
  const { entry, traits } = drawing;
  if (source && !traits.takesSource) throw invalidField("model", `The model ${entry.id} does not take a source image.`);
  return {
    prompt,
    size,
    ratio: chooseRatio(size, source, traits.ratios),
    style: textOf(fields["style"]) || null,
    source: source && { id: source.id, file: source.file },
  };
}

let known: ReadonlySet<string> | undefined;

/** The fields of a request that no image is made by: no vendor is told of them (contract 6, x-sluice-dropped). */
export function lostFields(body: unknown): readonly string[] {
  known ??= new Set(Object.keys(ImageRequestBody().properties));
  return isObject(body) ? showPaths(unknownFields(body, known)) : [];
}

/** Seconds of `Prefer: wait=N` (RFC 7240), at most {@link MAX_WAIT_SECONDS}; 0 where it is not there or cannot be read. */
export function readWait(headers: Headers): number {
  const asked = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})"?(?:$|[,;\s])/i.exec(headers.get("prefer") ?? "")?.[1];
  return Math.min(MAX_WAIT_SECONDS, Number(asked ?? 0));
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** `before` as Unix ms, and `limit`. Throws GatewayError (invalid_request) with the parameter at fault (contract 8, reliability 5.6). */
export function readPage(query: URLSearchParams): { before: number; limit: number } {
  const text = query.get("before");
  const before = text === null ? Number.MAX_SAFE_INTEGER : TIME.test(text) ? Date.parse(text) : Number.NaN;
  // A day that no month has is read as one of the next month: only what is written back the same is a time.
  if (Number.isNaN(before) || (text !== null && new Date(before).toISOString() !== text)) {
    throw invalidField("before", "before must be a time such as 2026-01-31T12:00:00.000Z, as next_before gives it.");
  }
  return { before, limit: readLimit(query, DEFAULT_PAGE, MAX_PAGE) };
}
