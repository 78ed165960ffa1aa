import type { Picture } from "../../canon/events.ts";
import type { ImagePart, Part } from "../../canon/prompt.ts";
import { isObject, listOf, put } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { dataUrl, imageSource, parseDataUrl } from "../media/url.ts";
import { extraContentOf, signatureIn } from "./extra-content.ts";

type Wire = Record<string, unknown>;

/** The field of a message, and of a delta, that holds the images that a model made: not OpenAI's own, and what clients and resellers agree on (OpenRouter). */
export const PICTURES = "images";

/** Whether a vendor refuses, or knows nothing of, such a list in a turn that is sent back: OpenAI refuses any field of a message that it does not know. */
export const refusesPictures = ({ unknownFields, refusesReasoning }: Quirks): boolean =>
  refusesReasoning === true || (unknownFields?.length ?? 0) > 0;

/** The address of an entry of that list. */
function urlOf(entry: unknown): string {
  const image = isObject(entry) ? entry["image_url"] : undefined;
  const url = isObject(image) ? image["url"] : image;
  return typeof url === "string" ? url : "";
}

/** An image as an entry of the list, the `index`th of its reply. */
export const pictureOf = (picture: Picture, index: number): Wire => ({
  type: "image_url",
  image_url: { url: dataUrl(picture) },
  index,
});

/** An entry with its vendor's proof, where that is one that a client can carry. */
export function withProof(entry: Wire, signature: string): Wire {
  const extra = extraContentOf(signature, "image");
  return extra ? { ...entry, extra_content: extra } : entry;
}

/** The images of a reply's message or delta: their bytes, or the address of one that is kept elsewhere. */
export function picturesIn(message: Wire): (Picture | { url: string })[] {
  return listOf(message[PICTURES]).flatMap((entry) => {
    const url = urlOf(entry);
    return url === "" ? [] : [parseDataUrl(url) ?? { url }];
  });
}

/** Where a client's messages hold images that the model made. */
export const picturePaths = (messages: unknown): string[] =>
  listOf(messages).flatMap((message, at) =>
    isObject(message) && listOf(message[PICTURES]).length > 0 ? [`messages[${at}].${PICTURES}`] : [],
  );

/** The images of an assistant's message of a client's, with what names each: its own earlier ones, of which the model is to know. */
export function picturesSentBack(message: Wire, path: string): Part[] {
  return listOf(message[PICTURES]).map((entry, at) => {
    const part: ImagePart = { type: "image", source: imageSource(urlOf(entry)), place: `${path}.${PICTURES}[${at}]` };
    put(part, "signature", signatureIn(entry, "image"));
    return part;
  });
}
