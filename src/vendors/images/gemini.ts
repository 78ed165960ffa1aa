import { isObject } from "../../lib/json.ts";
import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { declines, failedWith, listAt, objectAt, textAt } from "./answers.ts";
import { readWording } from "./fields.ts";
import { toBase64 } from "./source.ts";
import { type Answer, type Call, type Reading, refuseSource, type Wire, type WireContext } from "./wire.ts";

/** Reasons that are a refusal (dialects.md 7). */
const REFUSED =
  /^(?:IMAGE_SAFETY|IMAGE_PROHIBITED_CONTENT|PROHIBITED_CONTENT|SAFETY|BLOCKLIST|SPII|RECITATION|IMAGE_RECITATION|MODEL_ARMOR|ESCALATION)$/;
/**
 * Words in Google's own sentence by which there is no image on content grounds. The sentence begins the same for every reason ("Unable to show the generated
 * image"), also where the same prompt may as well be tried again (`IMAGE_OTHER`).
 */
const GROUNDS = /\b(?:violat\w+|polic(?:y|ies)|guidelines|unsafe|inappropriate)\b/i;

const isThought = (part: unknown) => isObject(part) && part["thought"] === true;

/** The parts that count: newer models send drafts of the image as thoughts before it. */
const partsOf = (candidate: unknown) =>
  listAt(objectAt(candidate, "content"), "parts").filter((part) => !isThought(part));

function findImage(parts: readonly unknown[]): string {
  for (const part of parts) {
    const data = textAt(objectAt(part, "inlineData"), "data") || textAt(objectAt(part, "inline_data"), "data");
    if (data) return data;
  }
  return "";
}

/** `again`: what is asked once more where the model gave no image without saying that it will not. */
function read({ json }: Answer, again: Call | undefined): Reading {
  if (textAt(objectAt(json, "promptFeedback"), "blockReason")) return { kind: "blocked" };
  const candidate = listAt(json, "candidates")[0];
  const parts = partsOf(candidate);
  const data = findImage(parts);
  if (data) return { kind: "base64", data };
  if (REFUSED.test(textAt(candidate, "finishReason"))) return { kind: "blocked" };
  const own = parts
    .map((part) => textAt(part, "text"))
    .join(" ")
    .trim();
  const told = textAt(candidate, "finishMessage");
  if (declines(own) || GROUNDS.test(told)) return { kind: "blocked" };
  if (again) return { kind: "next", call: again };
  return failedWith(own || told);
}

const pathOf = (name: string, verb: string) => `/models/${encodeURIComponent(name.replace(/^models\//, ""))}:${verb}`;

function createContent(request: ImageRequest, { model }: WireContext): Call {
  const { prompt, fields } = readWording(request, model);
  const { source, ratio } = request;
  const image = source && { inlineData: { mimeType: source.type, data: toBase64(source) } };
  const body = {
    contents: [{ role: "user", parts: [...(image ? [image] : []), { text: prompt }] }],
    generationConfig: {
      responseModalities: ["IMAGE"],
      ...model.extra,
      imageConfig: { aspectRatio: ratio, ...fields },
    },
  };
  const call = (again: Call | undefined): Call => ({
    method: "POST",
    path: pathOf(request.model, "generateContent"),
    body,
    read: (answer) => read(answer, again),
  });
  return call(call(undefined));
}

function readPrediction({ json }: Answer): Reading {
  // A page, or half an answer, is no word of the model's.
  if (!isObject(json)) return { kind: "failed" };
  const prediction = listAt(json, "predictions")[0];
  const data = textAt(prediction, "bytesBase64Encoded");
  // What was filtered is left out of the list (dialects.md 7).
  return data ? { kind: "base64", data } : { kind: "blocked" };
}

function createPrediction(request: ImageRequest): Call {
  refuseSource(request);
  return {
    method: "POST",
    path: pathOf(request.model, "predict"),
    body: {
      instances: [{ prompt: styledPrompt(request) }],
      parameters: { sampleCount: 1, aspectRatio: request.ratio },
    },
    read: readPrediction,
  };
}

/** Google's protocol: models that draw while they talk, and Imagen, which only draws (dialects.md 7). One blocking call without a name. */
export const geminiWire: Wire = {
  recovery: "none",
  create: (request, context) =>
    context.model.form === "predict" ? createPrediction(request) : createContent(request, context),
};
