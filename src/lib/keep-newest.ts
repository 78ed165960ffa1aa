/** Puts an entry into `map`, and removes the oldest one where there are more than `most` then. Returns `value`. */
export function keepNewest<V>(map: Map<string, V>, key: string, value: V, most: number): V {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
  return value;
}
