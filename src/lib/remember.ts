/** Most answers that are remembered; with one more all are forgotten. Models come from a catalog and hosts from a configuration, which have fewer. */
const MOST = 1_000;
/** Longest name that is remembered, characters: some names are the client's own. */
const MAX_NAME = 200;

/**
 * A function that remembers what `answer` returned for each name, so that it is called once for each. `answer` must depend on the name alone, and callers
 * must not change what they get. An `undefined` is not remembered.
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
