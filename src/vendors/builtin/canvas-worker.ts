import { errorCode } from "../../lib/error-code.ts";
import { reframe } from "./canvas-frame.ts";
import { encodePng, type Picture } from "./canvas-picture.ts";
import { drawScene } from "./canvas-scene.ts";
import type { Done, Work } from "./canvas-work.ts";
import { drawSketch } from "./sketch-scene.ts";

declare const self: { onmessage: ((event: { data: Work }) => void) | null };

async function frame(source: Uint8Array, ratio: string): Promise<Picture | undefined> {
  try {
    return await reframe(source, ratio);
  } catch (thrown) {
    // The codec's own errors have such a code: the source is damaged. Anything else is a fault of this program.
    if (errorCode(thrown).startsWith("ERR_IMAGE_")) return undefined;
    throw thrown;
  }
}

async function draw(work: Work): Promise<Done> {
  if (work.kind === "scene") return { png: await encodePng(drawScene(work.prompt, work.ratio)) };
  if (work.kind === "sketch") return { png: await encodePng(drawSketch(work.prompt, work.ratio)) };
  const picture = await frame(work.source, work.ratio);
  return picture ? { png: await encodePng(picture) } : { unreadable: true };
}

// In a thread of its own, since a picture takes longer than the event loop may stand still. One is drawn at a time. What `draw` throws ends the thread, and its
// owner starts a new one.
self.onmessage = ({ data }) => {
  void draw(data).then((done) => postMessage(done));
};
