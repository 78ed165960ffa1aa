/** Most field paths that are named for one request. */
const MAX_NAMED = 50;

/** The paths of what could not cross, each once, in the order they were met, and at most {@link MAX_NAMED} of them. */
export class DroppedPaths {
  /** Made for the first: nearly everything crosses. */
  #paths: Set<string> | undefined;

  add(path: string): void {
    this.#paths ??= new Set();
    if (this.#paths.size < MAX_NAMED) this.#paths.add(path);
  }

  addAll(paths: readonly string[]): void {
    for (const path of paths) this.add(path);
  }

  list(): string[] {
    return this.#paths ? [...this.#paths] : [];
  }
}
