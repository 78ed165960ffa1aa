import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { listAt, STOPPED, textAt } from "./answers.ts";
import { readPixels } from "./fields.ts";
import { toBase64 } from "./source.ts";
import type { Answer, Call, Reading, Wire, WireContext } from "./wire.ts";

/** How far an image may go from its source, 0 to 1. */
const DENOISING = 0.6;
/** The server's number for: scale and cut, do not stretch. */
const CROP_AND_RESIZE = 1;

function read({ json }: Answer): Reading {
  const data = listAt(json, "images")[0];
  return typeof data === "string" && data !== "" ? { kind: "base64", data } : { kind: "failed" };
}

function create(request: ImageRequest, { model }: WireContext): Call {
  const { source } = request;
  const body = {
    prompt: styledPrompt(request),
    ...readPixels(request, model),
    batch_size: 1,
    n_iter: 1,
    override_settings: { sd_model_checkpoint: request.model },
    // Newer servers tell by this name whether it is this image that they draw now.
    force_task_id: taskOf(request),
    ...model.extra,
    ...(source && {
      init_images: [toBase64(source)],
      denoising_strength: DENOISING,
      resize_mode: CROP_AND_RESIZE,
    }),
  };
  return { method: "POST", path: source ? "/sdapi/v1/img2img" : "/sdapi/v1/txt2img", body, read };
}

const taskOf = ({ key }: ImageRequest) => `sluice-${key}`;

/**
 * Stops the image that is being drawn, if it is this request's: the server can only stop whatever it draws at the time, and another client's image would come
 * out half done.
 */
function abandon(request: ImageRequest): Call {
  const interrupt: Call = { method: "POST", path: "/sdapi/v1/interrupt", body: {}, read: () => STOPPED };
  return {
    method: "GET",
    path: "/sdapi/v1/progress?skip_current_image=true",
    read: ({ json }) =>
      textAt(json, "current_task") === taskOf(request) ? { kind: "next", call: interrupt } : STOPPED,
  };
}

/** AUTOMATIC1111 and its kin (Forge, SD.Next; dialects.md 7): one blocking call without a name. */
export const automaticWire: Wire = { recovery: "none", create, abandon };
