import { existsSync, lchownSync, lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Gives files that were just made to whoever has their folder, where root made them: a command that root runs beside a service (a restore, a key, the
 * doctor) would else leave it a store that it cannot open. Never for files that were there before, of which nobody knows what they are, and never through
 * a link. Paths that are not there are passed over, and so is a root that may give nothing away, as in a container.
 */
export function giveToFolderOwner(...paths: readonly string[]): void {
  if (process.geteuid?.() !== 0) return;
  for (const path of paths.filter(existsSync)) {
    const { uid, gid } = statSync(dirname(path));
    if (uid === 0) continue;
    try {
      // Whoever has the folder may put another name of a file there that is not his. By its path: to open and close it would end SQLite's locks on it.
      const made = lstatSync(path);
      if (made.isFile() && made.nlink === 1 && made.uid === 0) lchownSync(path, uid, gid);
    } catch {
      // It stays root's, and the doctor says so.
    }
  }
}
