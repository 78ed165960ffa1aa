import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { BAD_NAME, failedWith, listAt, objectAt, readImageObject, STOPPED, textAt } from "./answers.ts";
import { readPixels, readSizeFields } from "./fields.ts";
import { toDataUrl } from "./source.ts";
import { encodePath } from "./tasks.ts";
import { type Answer, type ImageModel, type Reading, RequestFault, type Wire } from "./wire.ts";

/** Between two questions after a request, ms (dialects.md 7: 1 to 2 s). */
const POLL_MS = 1_000;

/** A request by its place below the queue's address, which is what is kept of it: `/owner/app/requests/ID`. */
const PLACE = /^(?:\/[A-Za-z0-9._-]+){2,6}\/requests\/[A-Za-z0-9_-]{1,100}$/;

function checkPlace(resumeId: string): string {
  if (!PLACE.test(resumeId) || resumeId.includes("/..") || resumeId.includes("/./")) {
    throw new RequestFault(BAD_NAME);
  }
  return resumeId;
}

/** The end of some addresses of a result, behind the request's place. */
const RESULT = "/response";
const withoutResult = (said: string) => (said.endsWith(RESULT) ? said.slice(0, -RESULT.length) : said);

/** The place that the queue names for a request: below the app, without the path of the model's endpoint. */
function readPlace({ json }: Answer, request: ImageRequest, baseUrl: string): Reading {
  const id = textAt(json, "request_id");
  const said = withoutResult(textAt(json, "response_url"));
  const [owner, app] = request.model.split("/");
  const place = said.startsWith(`${baseUrl}/`) ? said.slice(baseUrl.length) : `/${owner}/${app}/requests/${id}`;
  if (!id) return { kind: "failed" };
  return { kind: "pending", resumeId: checkPlace(place), pollAfterMs: POLL_MS };
}

function readResult({ json }: Answer): Reading {
  const filtered = [...listAt(json, "has_nsfw_concepts"), ...listAt(json, "nsfw_content_detected")];
  // The image is then a black one (dialects.md 7).
  if (filtered.includes(true)) return { kind: "blocked" };
  return readImageObject(listAt(json, "images")[0] ?? objectAt(json, "image"));
}

/**
 * Faults of fal's own servers, told beside the state of a request that has failed for good with one (fal.ai/docs, "Request Error Types"; its Python client,
 * Completed). Its result would be this error each time that it is asked for, with a status that otherwise means to ask again.
 */
const SERVER_FAULT = /^(?:(?:request|startup)_timeout|runner_\w+|internal_error)$/;

function readStatus(resumeId: string, { json }: Answer, baseUrl: string): Reading {
  const status = textAt(json, "status");
  if (status === "IN_QUEUE" || status === "IN_PROGRESS") return { kind: "pending", resumeId, pollAfterMs: POLL_MS };
  if (status !== "COMPLETED") return failedWith(status);
  const fault = textAt(json, "error_type");
  if (SERVER_FAULT.test(fault)) return failedWith(textAt(json, "error") || fault);
  const isBehind = textAt(json, "response_url") === `${baseUrl}${resumeId}${RESULT}`;
  const path = isBehind ? `${resumeId}${RESULT}` : resumeId;
  return { kind: "next", call: { method: "GET", path, read: readResult } };
}

function sizeFields(request: ImageRequest, model: ImageModel) {
  if (model.size === "ratio") return readSizeFields(request, model);
  // Where a model has named sizes alone, the caller's pixels have chosen among them by the ratio.
  const named = request.size && model.size !== "fixed" ? undefined : model.sizes?.[request.ratio];
  return { image_size: named ?? readPixels(request, model) };
}

/** fal's queue: requests asked for by their place, that can be stopped (dialects.md 7). */
export const falWire: Wire = {
  recovery: "resume",
  create(request, { model, baseUrl }) {
    const { source } = request;
    const { sourceField = "image_url", sourceList } = model;
    const image = source && toDataUrl(source);
    const body = {
      prompt: styledPrompt(request),
      num_images: 1,
      ...sizeFields(request, model),
      ...model.extra,
      ...(image && { [sourceField]: sourceList ? [image] : image }),
    };
    const path = `/${encodePath(request.model)}`;
    return { method: "POST", path, body, read: (answer) => readPlace(answer, request, baseUrl) };
  },
  resume: (resumeId, _request, { baseUrl }) => ({
    method: "GET",
    path: `${checkPlace(resumeId)}/status`,
    read: (answer) => readStatus(resumeId, answer, baseUrl),
  }),
  cancel: (resumeId) => ({
    method: "PUT",
    path: `${checkPlace(resumeId)}/cancel`,
    body: {},
    read: () => STOPPED,
  }),
};
