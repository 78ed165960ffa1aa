import { isObject } from "../../lib/json.ts";

/** A graph in the API's form: nodes by name. */
export type Graph = Readonly<Record<string, unknown>>;
/** What a graph's placeholders stand for. */
export type GraphValues = {
  prompt: string;
  model: string;
  width: number;
  height: number;
  seed: number;
  /** The source's name among the server's inputs; "" without one. */
  image: string;
};

/** Below this depth of a graph placeholders are not replaced. */
const MAX_DEPTH = 12;

/** The nodes that both graphs here have in common. `latent`: the output of a node that is drawn from. `denoise`: how far from it, 0 to 1; 1: from nothing. */
const drawingNodes = (latent: readonly [string, number], denoise: number) => ({
  model: { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: "{{model}}" } },
  wanted: { class_type: "CLIPTextEncode", inputs: { clip: ["model", 1], text: "{{prompt}}" } },
  unwanted: { class_type: "CLIPTextEncode", inputs: { clip: ["model", 1], text: "" } },
  sampled: {
    class_type: "KSampler",
    inputs: {
      model: ["model", 0],
      positive: ["wanted", 0],
      negative: ["unwanted", 0],
      latent_image: latent,
      seed: "{{seed}}",
      steps: 25,
      cfg: 7,
      sampler_name: "dpmpp_2m",
      scheduler: "karras",
      denoise,
    },
  },
  decoded: { class_type: "VAEDecode", inputs: { samples: ["sampled", 0], vae: ["model", 2] } },
  saved: { class_type: "SaveImage", inputs: { images: ["decoded", 0], filename_prefix: "sluice" } },
});

/** Draws with a checkpoint from a prompt alone. */
export const DRAW_GRAPH: Graph = {
  empty: { class_type: "EmptyLatentImage", inputs: { width: "{{width}}", height: "{{height}}", batch_size: 1 } },
  ...drawingNodes(["empty", 0], 1),
};

/** Draws from a source image, which is cut to the ratio and not stretched. */
export const REDRAW_GRAPH: Graph = {
  source: { class_type: "LoadImage", inputs: { image: "{{image}}" } },
  scaled: {
    class_type: "ImageScale",
    inputs: {
      image: ["source", 0],
      upscale_method: "lanczos",
      width: "{{width}}",
      height: "{{height}}",
      crop: "center",
    },
  },
  encoded: { class_type: "VAEEncode", inputs: { pixels: ["scaled", 0], vae: ["model", 2] } },
  ...drawingNodes(["encoded", 0], 0.6),
};

const PLACEHOLDER = /\{\{(prompt|model|width|height|seed|image)\}\}/g;

function fill(value: unknown, values: GraphValues, depth: number): unknown {
  if (depth > MAX_DEPTH) return value;
  if (typeof value === "string") {
    const whole = /^\{\{(width|height|seed)\}\}$/.exec(value);
    // Where the placeholder is the whole text, the number itself takes its place.
    if (whole) return values[whole[1] as "width"];
    return value.replace(PLACEHOLDER, (_text, name: keyof GraphValues) => String(values[name]));
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, values, depth + 1));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fill(inner, values, depth + 1)]));
}

/** The graph with its placeholders replaced: inside values only, so that a prompt can change no node. Pure. */
export function fillGraph(graph: Graph, values: GraphValues): Record<string, unknown> {
  return fill(graph, values, 0) as Record<string, unknown>;
}

/** Whether a graph has a place for a source image. */
export const takesImage = (graph: Graph): boolean => JSON.stringify(graph).includes("{{image}}");
