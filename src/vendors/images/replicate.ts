import { isObject } from "../../lib/json.ts";
import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { checkName, failedWith, objectAt, readImageText, STOPPED, textAt } from "./answers.ts";
import { readSizeFields } from "./fields.ts";
import { toDataUrl, toFile } from "./source.ts";
import { encodePath } from "./tasks.ts";
import { type Answer, type Call, type Reading, RequestFault, type Wire, type WireContext } from "./wire.ts";

/** Between two questions after a prediction, ms (dialects.md 7: 1 to 2 s). */
const POLL_MS = 1_500;
/** Sources of more bytes are uploaded as files first: data URLs are meant for small ones. */
const MAX_INLINE_BYTES = 256 * 1024;

const PENDING = /^(?:starting|processing|queued)$/;

/** The image's address: output is one, or a list of some. */
function findOutput(output: unknown): string {
  const first: unknown = Array.isArray(output) ? output.find((item) => typeof item === "string") : output;
  return typeof first === "string" ? first : textAt(first, "url");
}

function readPrediction({ json }: Answer): Reading {
  const status = textAt(json, "status");
  const resumeId = textAt(json, "id");
  if (PENDING.test(status) && resumeId) return { kind: "pending", resumeId, pollAfterMs: POLL_MS };
  if (status === "succeeded") {
    const url = findOutput(isObject(json) ? json["output"] : undefined);
    return url ? readImageText(url) : { kind: "failed" };
  }
  if (/^(?:canceled|aborted)$/.test(status)) return { kind: "failed", words: "It was cancelled there." };
  return failedWith(textAt(json, "error"));
}

/** Where a model is asked: the newest of an `owner/name`, or a version, which is told in the body. */
function placeOf(name: string): { path: string; version?: string } {
  const version = /^(?:[^:]*:)?([0-9a-f]{40,64})$/.exec(name)?.[1];
  if (version) return { path: "/predictions", version };
  return { path: `/models/${encodePath(name)}/predictions` };
}

function predict(request: ImageRequest, { model }: WireContext, source: string | undefined): Call {
  const { path, version } = placeOf(request.model);
  const { sourceField = "image", sourceList } = model;
  const input = {
    prompt: styledPrompt(request),
    ...readSizeFields(request, model),
    ...model.extra,
    ...(source !== undefined && { [sourceField]: sourceList ? [source] : source }),
  };
  return { method: "POST", path, body: { ...(version && { version }), input }, read: readPrediction };
}

/** Uploads a large source as a file of the account, before the prediction is asked for. */
function upload(request: ImageRequest, context: WireContext): Call {
  const { file, name } = toFile(request.source!);
  const body = new FormData();
  body.append("content", file, name);
  return {
    method: "POST",
    path: "/files",
    body,
    prepares: true,
    read({ json }) {
      const url = textAt(objectAt(json, "urls"), "get");
      if (!url) throw new RequestFault("The vendor did not take the source image.");
      return { kind: "next", call: predict(request, context, url) };
    },
  };
}

/** Replicate: predictions, asked for by name, that can be stopped (dialects.md 7). The order is not answered with the image: so the name is kept sooner. */
export const replicateWire: Wire = {
  recovery: "resume",
  create(request, context) {
    const { source } = request;
    if (source && source.bytes.length > MAX_INLINE_BYTES) return upload(request, context);
    return predict(request, context, source && toDataUrl(source));
  },
  resume: (resumeId) => ({ method: "GET", path: `/predictions/${checkName(resumeId)}`, read: readPrediction }),
  cancel: (resumeId) => ({
    method: "POST",
    path: `/predictions/${checkName(resumeId)}/cancel`,
    body: {},
    read: () => STOPPED,
  }),
};
