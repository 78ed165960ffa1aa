/** Puts an entry into `map`, from which the oldest one goes where there are more than `most`. Gives the entry. */
export function keepNewest<V>(map: Map<string, V>, key: string, value: V, most: number): V {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
  return value;
}
