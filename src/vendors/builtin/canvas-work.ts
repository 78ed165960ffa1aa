/** A picture to be drawn in the thread: a scene, a sketch, or a source in a new frame. */
export type Work =
  | { kind: "scene"; prompt: string; ratio: string }
  | { kind: "sketch"; prompt: string; ratio: string }
  | { kind: "frame"; source: Uint8Array; ratio: string };

/** What came of it: a PNG file, or why not. */
export type Done = { png: Uint8Array } | { unreadable: true };
