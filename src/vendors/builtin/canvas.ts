import type { Clock } from "../../lib/clock.ts";
import { entryOf } from "../../lib/json.ts";
import type { ImageRequest, ImageStep, ImageTraits, ImageUpstream } from "../image-upstream.ts";
import { DrawingThread } from "./canvas-thread.ts";
import type { Work } from "./canvas-work.ts";

/** Every ratio that one of the vendors draws (dialects.md 7). */
const RATIOS = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "9:21", "21:9"] as const;

/** The models by their names upstream: what they draw, and whether they take a source (contract 10). */
const MODELS: Readonly<Record<string, { kind: "scene" | "sketch"; takesSource: boolean }>> = {
  canvas: { kind: "scene", takesSource: true },
  sketch: { kind: "sketch", takesSource: false },
};

const modelOf = (name: string) => entryOf(MODELS, name);

/** Words in a prompt by which these models refuse or fail, so that clients can be tried against them (contract 10). */
function askedOutcome(prompt: string): ImageStep | undefined {
  if (prompt.includes("[[blocked]]")) {
    return { kind: "blocked", message: "The prompt was refused, as its [[blocked]] asks for." };
  }
  if (!prompt.includes("[[fail]]")) return undefined;
  return { kind: "failed", message: "The drawing failed, as the prompt's [[fail]] asks for.", ran: "maybe" };
}

function toWork(kind: "scene" | "sketch", { source, prompt, style, ratio }: ImageRequest): Work {
  if (source) return { kind: "frame", source: source.bytes, ratio };
  return { kind, prompt: style ? `${prompt}\n${style}` : prompt, ratio };
}

/**
 * The image models of the vendor `sluice` (contract 10): real pictures, drawn inside this process from the words of the prompt, in a thread. What
 * they draw depends on the request alone and costs nothing, so that a request may be sent again after a crash.
 */
export function builtinImages(clock: Clock): ImageUpstream {
  const thread = new DrawingThread(clock);
  return {
    recovery: "resend",
    traits: (name): ImageTraits => ({ ratios: RATIOS, takesSource: modelOf(name)?.takesSource ?? false }),
    async create(request, signal): Promise<ImageStep> {
      const asked = askedOutcome(request.prompt);
      if (asked) return asked;
      const model = modelOf(request.model);
      if (!model) return { kind: "failed", message: "The built-in vendor has no such model.", ran: "no", fault: true };
      const done = await thread.draw(toWork(model.kind, request), signal);
      if ("png" in done) return { kind: "image", bytes: done.png };
      return { kind: "failed", message: "The source image cannot be read.", ran: "no", fault: true };
    },
  };
}
