import { isObject, listOf } from "../../lib/json.ts";
import { isDataUrl } from "../media/url.ts";

/**
 * Fields of a part at which a model server fetches what stands at an address (vLLM, "Multimodal Inputs"): films and sound by their own types, and any of
 * the three whatever the type is where the part has a `uuid`.
 */
const FETCHED = ["image_url", "video_url", "audio_url"] as const;

/** Parts whose image is known as one: what is at its address is fetched here, if its vendor is not to. */
const IMAGES: ReadonlySet<unknown> = new Set(["image_url", "input_image"]);

function isFetched(part: unknown): boolean {
  if (!isObject(part)) return false;
  return FETCHED.some((field) => {
    if (field === "image_url" && IMAGES.has(part["type"])) return false;
    const held = part[field];
    const url = isObject(held) ? held["url"] : held;
    return typeof url === "string" && url !== "" && !isDataUrl(url);
  });
}

/** Where in a chat body the first part stands that would have a model server fetch something, known images aside. Pure. */
export function findFetched(body: Record<string, unknown>): string | undefined {
  for (const [index, message] of listOf(body["messages"]).entries()) {
    const at = isObject(message) ? listOf(message["content"]).findIndex(isFetched) : -1;
    if (at >= 0) return `messages[${index}].content[${at}]`;
  }
  return undefined;
}
