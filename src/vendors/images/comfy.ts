import { isObject } from "../../lib/json.ts";
import { type ImageRequest, styledPrompt } from "../image-upstream.ts";
import { checkName, listAt, objectAt, STOPPED, textAt } from "./answers.ts";
import { DRAW_GRAPH, fillGraph, REDRAW_GRAPH, takesImage } from "./comfy-graph.ts";
import { readPixels } from "./fields.ts";
import { toFile } from "./source.ts";
import { type Answer, type Call, type Reading, RequestFault, type Wire, type WireContext } from "./wire.ts";

/** Between two questions after a prompt, ms. */
const POLL_MS = 1_000;
/** Most nodes of a graph whose outputs are looked through. */
const MAX_NODES = 500;

/** A seed made of the job's key: for a graph that is equal to one before, the server draws nothing. */
const seedOf = (key: string) => Number(BigInt(Bun.hash(key)) % 2n ** 48n);

function prompt(request: ImageRequest, context: WireContext, image: string | undefined): Call {
  const graph = context.workflow ?? (image === undefined ? DRAW_GRAPH : REDRAW_GRAPH);
  if (image !== undefined && !takesImage(graph)) throw new RequestFault("The server's workflow takes no source image.");
  const filled = fillGraph(graph, {
    prompt: styledPrompt(request),
    model: request.model,
    seed: seedOf(request.key),
    image: image ?? "",
    ...readPixels(request, context.model),
  });
  return { method: "POST", path: "/prompt", body: { prompt: filled, client_id: "sluice" }, read: readPrompt };
}

function readPrompt({ json }: Answer): Reading {
  const resumeId = textAt(json, "prompt_id");
  return resumeId ? { kind: "pending", resumeId: checkName(resumeId), pollAfterMs: POLL_MS } : { kind: "failed" };
}

/** Uploads the source image, under a name made of the job's key. */
function upload(request: ImageRequest, context: WireContext): Call {
  const { file, name } = toFile(request.source!, `sluice-${request.key}`);
  const body = new FormData();
  body.append("image", file, name);
  body.append("overwrite", "true");
  return {
    method: "POST",
    path: "/upload/image",
    body,
    prepares: true,
    read({ json }) {
      const stored = textAt(json, "name");
      const folder = textAt(json, "subfolder");
      if (!stored) throw new RequestFault("The vendor did not take the source image.");
      return { kind: "next", call: prompt(request, context, folder ? `${folder}/${stored}` : stored) };
    },
  };
}

/** The failure that a node of the graph reports, in its own words. */
function readError(status: Record<string, unknown>): Reading {
  for (const message of listAt(status, "messages")) {
    if (!Array.isArray(message) || message[0] !== "execution_error") continue;
    const words = textAt(message[1], "exception_message");
    if (words) return { kind: "failed", words };
  }
  return { kind: "failed" };
}

/** The first image that the graph saved; where it saved none, the first that it only showed as a preview. */
function findImage(outputs: Record<string, unknown>): Record<string, unknown> | undefined {
  const images = Object.values(outputs)
    .slice(0, MAX_NODES)
    .flatMap((output) => listAt(output, "images"))
    .filter(isObject);
  return images.find((image) => image["type"] === "output") ?? images[0];
}

function readHistory(resumeId: string, { json }: Answer): Reading {
  const entry = isObject(json) ? json[resumeId] : undefined;
  if (!isObject(entry)) return { kind: "pending", resumeId, pollAfterMs: POLL_MS };
  const status = objectAt(entry, "status");
  if (textAt(status, "status_str") === "error") return readError(status);
  const image = findImage(objectAt(entry, "outputs"));
  if (!image) return { kind: "failed", words: "The workflow ended without an image." };
  const query = new URLSearchParams({
    filename: textAt(image, "filename"),
    subfolder: textAt(image, "subfolder"),
    type: textAt(image, "type") || "output",
  });
  const call: Call = {
    method: "GET",
    path: `/view?${query}`,
    accept: "image/*",
    read: ({ bytes }) => ({ kind: "bytes", bytes }),
  };
  return { kind: "next", call };
}

/** Work that runs is interrupted, work that waits is taken out of the queue. First the queue is read: older servers interrupt whatever runs, by any name. */
function cancel(resumeId: string): Call {
  const drop: Call = { method: "POST", path: "/queue", body: { delete: [resumeId] }, read: () => STOPPED };
  const interrupt: Call = { method: "POST", path: "/interrupt", body: { prompt_id: resumeId }, read: () => STOPPED };
  return {
    method: "GET",
    path: "/queue",
    read({ json }) {
      const runs = listAt(json, "queue_running").some((item) => Array.isArray(item) && item[1] === resumeId);
      return { kind: "next", call: runs ? interrupt : drop };
    },
  };
}

/** ComfyUI (dialects.md 7): a graph is queued, asked for by name, and can be stopped. */
export const comfyWire: Wire = {
  recovery: "resume",
  create: (request, context) => (request.source ? upload(request, context) : prompt(request, context, undefined)),
  resume: (resumeId) => ({
    method: "GET",
    path: `/history/${checkName(resumeId)}`,
    read: (answer) => readHistory(resumeId, answer),
  }),
  cancel: (resumeId) => cancel(checkName(resumeId)),
};
