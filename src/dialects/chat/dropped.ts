/** Most field paths that are named for one request. */
const MAX_NAMED = 50;

/** The paths of what could not cross, each once, in the order they were met, and at most {@link MAX_NAMED} of them. */
export class DroppedPaths {
  #paths = new Set<string>();

  add(path: string): void {
    if (this.#paths.size < MAX_NAMED) this.#paths.add(path);
  }

  list(): string[] {
    return [...this.#paths];
  }
}
