import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { failedWith, objectAt, readImageBody, readImageText, textAt } from "./answers.ts";
import { readSizeFields } from "./fields.ts";
import { toBase64, toDataUrl } from "./source.ts";
import {
  type Answer,
  type Call,
  type Reading,
  RequestFault,
  refuseSource,
  type Wire,
  type WireContext,
} from "./wire.ts";

/** Between two questions after a task, ms (dialects.md 7: 1 to 2 s). */
const POLL_MS = 1_000;

/** States of a task that has failed. They are passed on as the vendor's words, of which the rows know those that are refusals. */
const ENDED = /^(?:Error|Failed|Task not found)$|moderated/i;

/**
 * States of a task, in the words of Black Forest Labs, which Fireworks took over with its models (dialects.md 7). One that is no end is work under
 * way, whatever it is called: newer models are "Reasoning" and "Generating" before they are ready, and the job's own time is the bound.
 */
function readTask(resumeId: string, { json }: Answer): Reading {
  const status = textAt(json, "status") || textAt(json, "state");
  const result = objectAt(json, "result");
  if (/^Ready$/i.test(status)) {
    const sample = textAt(result, "sample");
    return sample ? readImageText(sample) : { kind: "failed" };
  }
  if (status && !ENDED.test(status)) return { kind: "pending", resumeId, pollAfterMs: POLL_MS };
  return failedWith(textAt(json, "error") || textAt(objectAt(json, "details"), "error") || status);
}

const prompted = (request: Omit<ImageRequest, "source">, { model }: WireContext) => ({
  prompt: styledPrompt(request),
  ...readSizeFields(request, model),
  ...model.extra,
});

/** A task that was begun, known by the text at this field of the answer. */
function begunTask(json: unknown, field: string): Reading {
  const resumeId = textAt(json, field);
  return resumeId ? { kind: "pending", resumeId, pollAfterMs: POLL_MS } : { kind: "failed" };
}

/** The address to ask at: of a task on one of several clusters the vendor names it with the task. */
const readPollingUrl = ({ json }: Answer): Reading => begunTask(json, "polling_url");

/** Black Forest Labs: a task is known by the address to ask at. It cannot be stopped. */
export const bflWire: Wire = {
  recovery: "resume",
  create(request, context) {
    const { source } = request;
    const { sourceField = "input_image", sourceList } = context.model;
    const image = source && toBase64(source);
    const body = { ...prompted(request, context), ...(image && { [sourceField]: sourceList ? [image] : image }) };
    return { method: "POST", path: `/${encodePath(request.model)}`, body, read: readPollingUrl };
  },
  resume: (url) => ({ method: "GET", url, read: (answer) => readTask(url, answer) }),
};

/** A model's name as steps of a path: none of them leads upwards or ends the path. */
export function encodePath(name: string): string {
  const steps = name.split("/");
  if (steps.some((step) => step === "" || step === "." || step === "..")) {
    throw new RequestFault("The vendor has no model of this name.");
  }
  return steps.map(encodeURIComponent).join("/");
}

/** Fireworks: its models' full names have `accounts/…/models/` before them. */
const fireworksPath = (name: string) => encodePath(name.includes("/") ? name : `accounts/fireworks/models/${name}`);

/** Beside the model's name, the task's own is enough to ask for it. */
const readRequestId = ({ json }: Answer): Reading => begunTask(json, "request_id");

const IMAGE_BODY = { accept: "image/*", read: readImageBody } as const;

/** The body for models that take no source image. Throws RequestFault where there is one. */
function wordsAlone(request: ImageRequest, context: WireContext) {
  refuseSource(request);
  return prompted(request, context);
}

/** How the three kinds of Fireworks' models are asked. */
const FIREWORKS: Readonly<Record<string, (request: ImageRequest, context: WireContext) => Call>> = {
  /** Answered with the image itself. */
  workflow: (request, context) => ({
    method: "POST",
    path: `/workflows/${fireworksPath(request.model)}/text_to_image`,
    body: wordsAlone(request, context),
    ...IMAGE_BODY,
  }),
  generation: (request, context) => ({
    method: "POST",
    path: `/image_generation/${fireworksPath(request.model)}`,
    body: wordsAlone(request, context),
    ...IMAGE_BODY,
  }),
  task: (request, context) => ({
    method: "POST",
    path: `/workflows/${fireworksPath(request.model)}`,
    body: { ...prompted(request, context), ...(request.source && { input_image: toDataUrl(request.source) }) },
    read: readRequestId,
  }),
};

/** Fireworks: most models answer at once; the tasks of the others are asked for by name. */
export const fireworksWire: Wire = {
  recovery: "resume",
  create: (request, context) => FIREWORKS[context.model.form ?? "workflow"]!(request, context),
  resume: (resumeId, request) => ({
    method: "POST",
    path: `/workflows/${fireworksPath(request.model)}/get_result`,
    body: { id: resumeId },
    read: (answer) => readTask(resumeId, answer),
  }),
};
