import type { Pixels } from "../../lib/pixels.ts";
import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { pixelsOf, resolutionOf } from "./pixels.ts";
import type { ImageModel } from "./wire.ts";

type Worded = Pick<ImageRequest, "prompt" | "style" | "size">;

/** The prompt, and the style and resolution in fields of their own where the model has such (dialects.md 7). */
export function readWording({ prompt, style, size }: Worded, { styles, resolutions }: ImageModel) {
  const known = styles?.names.find((name) => name === style?.trim().toLowerCase().replace(/ /g, "-"));
  const resolution = resolutions && resolutionOf(size, resolutions.steps);
  return {
    prompt: known ? prompt : styledPrompt({ prompt, ...(style && { style }) }),
    fields: {
      ...(styles && known && { [styles.field]: known }),
      ...(resolutions && resolution && { [resolutions.field]: resolution }),
    },
  };
}

/** The pixels of a request for a model that takes pixels. Throws RangeError where its row names no rule. */
export function readPixels(request: Pick<ImageRequest, "ratio" | "size">, { pixels, match }: ImageModel): Pixels {
  if (!pixels) throw new RangeError(`The row of ${match} names no pixels.`);
  return pixelsOf(request, pixels);
}

/** The size as the field of the ratio, or `width` and `height`, by what the model takes. */
export function readSizeFields(request: Pick<ImageRequest, "ratio" | "size">, model: ImageModel) {
  return model.size === "pixels"
    ? { ...readPixels(request, model) }
    : { [model.ratioField ?? "aspect_ratio"]: request.ratio };
}
