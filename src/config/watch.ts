import { stat } from "node:fs/promises";
import type { Clock } from "../lib/clock.ts";

/** How often the files are looked at, ms. Asking costs next to nothing; being told by the system would wake this process at every write of its store. */
export const LOOK_MS = 500;

/** What a file is known by: another content nearly always has another of these. */
async function lookAt(path: string): Promise<string> {
  try {
    const { mtimeMs, size, ino } = await stat(path);
    return `${path} ${mtimeMs} ${size} ${ino}`;
  } catch {
    // Not there, or not to be seen: that is a state like another.
    return "";
  }
}

/** A watch on some files. */
export type FileWatch = {
  /** What there is now is going to be read: nobody is told of it as well. */
  skip(): Promise<void>;
  stop(): void;
};

/** Calls `onChange` when one of the files has changed, come or gone, once it has stood still for a moment: half a file is nobody's wish. */
export async function watchFiles(paths: readonly string[], clock: Clock, onChange: () => void): Promise<FileWatch> {
  const look = async () => (await Promise.all(paths.map(lookAt))).join("\n");
  let known = await look();
  let before = known;
  let cancel = () => {};
  let stopped = false;
  const round = async () => {
    const now = await look();
    if (stopped) return;
    const still = now === before;
    before = now;
    if (now !== known && still) {
      known = now;
      onChange();
    }
    cancel = clock.after(LOOK_MS, () => void round());
  };
  cancel = clock.after(LOOK_MS, () => void round());
  return {
    async skip() {
      known = await look();
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}
