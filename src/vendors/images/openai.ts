import { readRawError } from "../../dialects/refusals/raw-error.ts";
import { isObject } from "../../lib/json.ts";
import type { ImageRequest } from "../image-upstream.ts";
import { failedWith, listAt, objectAt, readImageObject, STOPPED, textAt } from "./answers.ts";
import { readPixels, readSizeFields, readWording } from "./fields.ts";
import { toDataUrl, toFile } from "./source.ts";
import type { Answer, Call, ImageModel, Reading, Wire, WireContext } from "./wire.ts";

/** `size` as this protocol writes it: what the model calls the ratio, or pixels. */
function readSize(request: ImageRequest, model: ImageModel): string {
  const named = model.sizes?.[request.ratio];
  if (named) return named;
  const { width, height } = readPixels(request, model);
  return `${width}x${height}`;
}

/** How a gateway of this kind calls what it answers an order with (interface 2.1), and how often it wants to be asked (contract 8), ms. */
const JOB = "image.generation.job";
const POLL_MS = 2_000;

/** A job of another gateway: it is drawn there after the answer, and asked for by its name. */
function readJob({ json }: Answer): Reading {
  const status = textAt(json, "status");
  const resumeId = textAt(json, "id");
  if (status === "processing" && resumeId) return { kind: "pending", resumeId, pollAfterMs: POLL_MS };
  if (status === "succeeded") return readImageObject(listAt(json, "data")[0]);
  if (status === "blocked") return { kind: "blocked" };
  return failedWith(textAt(objectAt(json, "error"), "message"));
}

const readAny = (answer: Answer): Reading => (textAt(answer.json, "object") === JOB ? readJob(answer) : read(answer));

/** Reads the first image. A vendor that will not show what it drew says so beside it (xAI, DeepInfra), as does one whose moderation let none be drawn (xAI). */
function read({ json }: Answer): Reading {
  const image = listAt(json, "data")[0] ?? listAt(json, "images")[0];
  if (isObject(image) && image["respect_moderation"] === false) return { kind: "blocked" };
  if (listAt(json, "nsfw_content_detected")[0] === true) return { kind: "blocked" };
  if (image === undefined && textAt(json, "block_reason")) return { kind: "blocked" };
  if (image === undefined) return failedWith(readRawError(json).message);
  return typeof image === "string" ? { kind: "url", url: image } : readImageObject(image);
}

function toForm(fields: Readonly<Record<string, unknown>>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  return form;
}

/** Where the source image goes, by the form of the model's row. */
const SOURCES: Readonly<
  Record<string, (fields: Record<string, unknown>, request: ImageRequest, model: ImageModel) => Call>
> = {
  multipart(fields, { source }) {
    const body = toForm(fields);
    if (source) {
      const { file, name } = toFile(source);
      body.append("image", file, name);
    }
    return { method: "POST", path: "/images/edits", body, read };
  },
  object: (fields, { source }) => ({
    method: "POST",
    path: "/images/edits",
    body: { ...fields, image: { url: toDataUrl(source!), type: "image_url" } },
    read,
  }),
  field: (fields, { source }, { sourceField = "image_url" }) => ({
    method: "POST",
    path: "/images/generations",
    body: { ...fields, [sourceField]: toDataUrl(source!) },
    read,
  }),
};

function create(request: ImageRequest, { model }: WireContext): Call {
  const { prompt, fields: worded } = readWording(request, model);
  const size = model.size === "fixed" || model.form === "multipart";
  const sized = size ? { size: readSize(request, model) } : readSizeFields(request, model);
  const fields = { model: request.model, prompt, n: 1, ...sized, ...worded, ...model.extra };
  if (request.source) return SOURCES[model.form ?? "multipart"]!(fields, request, model);
  return { method: "POST", path: "/images/generations", body: fields, read };
}

const jobPath = (resumeId: string) => `/images/generations/${encodeURIComponent(resumeId)}`;

/** OpenAI's images protocol, and those of vendors that vary its source and size: one blocking call without a name (dialects.md 7). */
export const openaiWire: Wire = { recovery: "none", create };

/** The same for servers of which nothing is known: one that answers with a job, as this gateway does, is asked for it until it has ended. */
export const compatibleWire: Wire = {
  recovery: "resume",
  create: (request, context) => ({ ...create(request, context), read: readAny }),
  resume: (resumeId) => ({ method: "GET", path: jobPath(resumeId), read: readAny }),
  cancel: (resumeId) => ({
    method: "DELETE",
    path: jobPath(resumeId),
    read: () => STOPPED,
  }),
};
