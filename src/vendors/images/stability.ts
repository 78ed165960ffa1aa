import type { ImageRequest } from "../image-upstream.ts";
import { textAt } from "./answers.ts";
import { readWording } from "./fields.ts";
import { toFile } from "./source.ts";
import type { Answer, Call, Reading, Wire, WireContext } from "./wire.ts";

/** How far an image may go from its source, 0 to 1: enough to follow the prompt, little enough to know it again. */
const STRENGTH = "0.65";

function read({ json }: Answer): Reading {
  // What was filtered comes as a blurred image (dialects.md 7).
  if (/FILTER/i.test(textAt(json, "finish_reason"))) return { kind: "blocked" };
  const data = textAt(json, "image");
  return data ? { kind: "base64", data } : { kind: "failed" };
}

function create(request: ImageRequest, { model }: WireContext): Call {
  const { prompt, fields } = readWording(request, model);
  const body = new FormData();
  const { source } = request;
  const isNamed = model.form === "named";
  const all: Record<string, string> = {
    ...{ prompt, output_format: "png" },
    // The endpoint of several models is told which one; of two of them the model is the endpoint.
    ...(isNamed && { model: request.model, mode: source ? "image-to-image" : "text-to-image" }),
    // From a source that endpoint draws at the source's own ratio, and refuses another.
    ...(!(isNamed && source) && { aspect_ratio: request.ratio }),
    ...fields,
  };
  for (const [name, value] of Object.entries(all)) body.append(name, value);
  if (source) {
    const { file, name } = toFile(source);
    body.append("image", file, name);
    body.append("strength", STRENGTH);
  }
  return { method: "POST", path: `/v2beta/stable-image/generate/${model.path}`, body, read };
}

/** Stability's protocol: a form, answered with JSON (dialects.md 7). One blocking call without a name. */
export const stabilityWire: Wire = { recovery: "none", create };
