import { stat } from "node:fs/promises";
import type { Clock } from "../lib/clock.ts";

/** How often the files are looked at, ms. That costs next to nothing; a watch by the system would wake this process at every write to its store. */
export const LOOK_MS = 500;

/** A file's state: path, time of change, size and inode, of which another content nearly always changes one. "" where it is missing. */
async function lookAt(path: string): Promise<string> {
  try {
    const { mtimeMs, size, ino } = await stat(path);
    return `${path} ${mtimeMs} ${size} ${ino}`;
  } catch {
    // Missing, or not to be seen: a state like any other.
    return "";
  }
}

/** A watch on some files. */
export type FileWatch = {
  /** Takes the files as they are now for known, since the caller is about to read them: `onChange` is not called for that. */
  skip(): Promise<void>;
  stop(): void;
};

/** Calls `onChange` when a file has changed, appeared or vanished, once all have stayed the same for {@link LOOK_MS}: a file may be half written before. */
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
