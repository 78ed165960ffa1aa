import { readRawError } from "../../dialects/refusals/raw-error.ts";
import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { declines, listAt, objectAt, readImageObject, textAt } from "./answers.ts";
import { toDataUrl } from "./source.ts";
import type { Answer, Call, Reading, Wire, WireContext } from "./wire.ts";

/** Finish reasons that are a refusal, the aggregator's own and those of the vendors behind it. */
const REFUSED = /content_filter|SAFETY|PROHIBITED|BLOCKLIST|RECITATION|moderat|refus/i;

function read({ json }: Answer): Reading {
  const choice = listAt(json, "choices")[0];
  const message = objectAt(choice, "message");
  const url = textAt(objectAt(listAt(message, "images")[0], "image_url"), "url");
  if (url) return { kind: "url", url };
  const reasons = `${textAt(choice, "finish_reason")} ${textAt(choice, "native_finish_reason")}`;
  if (REFUSED.test(reasons) || textAt(message, "refusal")) return { kind: "blocked" };
  // Errors of the vendors behind it come inside an answer of status 200.
  const words = [objectAt(choice, "error"), objectAt(json, "error")].map((error) => readRawError(error).message);
  const told = words.find(Boolean);
  if (told) return { kind: "failed", words: told };
  const prose = textAt(message, "content");
  if (declines(prose)) return { kind: "blocked" };
  return prose ? { kind: "failed", words: prose, isProse: true } : { kind: "failed" };
}

/** Reads an answer of the endpoint for images. Its errors have the form of the chat's. */
function readAlone(answer: Answer): Reading {
  const image = listAt(answer.json, "data")[0];
  return image === undefined ? read(answer) : readImageObject(image);
}

function create(request: ImageRequest, { model }: WireContext): Call {
  const { source, ratio } = request;
  if (model.form === "images") {
    // This endpoint refuses a parameter that the model does not know: only what every model takes is sent.
    const references = source && [{ type: "image_url", image_url: { url: toDataUrl(source) } }];
    const body = {
      model: request.model,
      prompt: styledPrompt(request),
      ...(model.size !== "none" && { aspect_ratio: ratio }),
      ...(references && { input_references: references }),
      ...model.extra,
    };
    return { method: "POST", path: "/images", body, read: readAlone };
  }
  const text = { type: "text", text: styledPrompt(request) };
  const image = source && { type: "image_url", image_url: { url: toDataUrl(source) } };
  const body = {
    model: request.model,
    messages: [{ role: "user", content: [text, ...(image ? [image] : [])] }],
    modalities: ["image", "text"],
    image_config: { aspect_ratio: ratio },
    stream: false,
    ...model.extra,
  };
  return { method: "POST", path: "/chat/completions", body, read };
}

/** OpenRouter (dialects.md 7): images in the reply of a chat or, of models that do not talk, from its endpoint for images. One blocking call without a name. */
export const chatWire: Wire = { recovery: "none", create };
