/** Most answers that are remembered; beyond, all are forgotten. Names of models come from a catalog, which has fewer. */
const MOST = 1_000;
/** Longest name that is remembered, characters: some names are the client's own. */
const MAX_NAME = 200;

/**
 * `answer`, which depends on nothing but a name, asked once for each: what was answered before is known by heart. Whoever gets an answer must
 * not change it.
 */
export function remember<T>(answer: (name: string) => T): (name: string) => T {
  const known = new Map<string, T>();
  return (name) => {
    const found = known.get(name);
    if (found !== undefined) return found;
    const answered = answer(name);
    if (name.length > MAX_NAME) return answered;
    if (known.size >= MOST) known.clear();
    known.set(name, answered);
    return answered;
  };
}
