import { existsSync, lchownSync, lstatSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Gives files that root has just made to the owner of their folder: otherwise a command that root runs beside a service (a restore, a key, the doctor)
 * would leave the service a store that it cannot open. To be called for new files only: of others nobody knows what they are. Links are not followed.
 * Does nothing for paths that do not exist, and where root may not change owners, as in some containers.
 */
export function giveToFolderOwner(...paths: readonly string[]): void {
  if (process.geteuid?.() !== 0) return;
  for (const path of paths.filter(existsSync)) {
    const { uid, gid } = statSync(dirname(path));
    if (uid === 0) continue;
    try {
      // The folder's owner could have put a link there to a file that is not his: hence nlink. By path, since opening and closing it would drop SQLite's locks.
      const made = lstatSync(path);
      if (made.isFile() && made.nlink === 1 && made.uid === 0) lchownSync(path, uid, gid);
    } catch {
      // It stays root's, and the doctor says so.
    }
  }
}
