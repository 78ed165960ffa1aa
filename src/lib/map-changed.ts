type Fields = Record<string, unknown>;

/** The list with each entry as `change` returns it; the very same list where that changes none, so that callers can tell and nothing is copied in vain. */
export function mapChanged<T>(list: readonly T[], change: (entry: T, at: number) => T): readonly T[] {
  let changed: T[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const entry = list[at] as T;
    const next = change(entry, at);
    if (next === entry) continue;
    changed ??= [...list];
    changed[at] = next;
  }
  return changed ?? list;
}

/** {@link mapChanged} for the values of an object. */
export function mapFields(object: Fields, change: (value: unknown, field: string) => unknown): Fields {
  let changed: Fields | undefined;
  for (const field in object) {
    const next = change(object[field], field);
    if (next === object[field]) continue;
    changed ??= { ...object };
    changed[field] = next;
  }
  return changed ?? object;
}

/** An object with {@link mapChanged} applied to the list in one of its fields; the very same object where there is no list, or nothing in it changes. */
export function mapListIn(holder: Fields, field: string, change: (entry: unknown, at: number) => unknown): Fields {
  const list = holder[field];
  if (!Array.isArray(list)) return holder;
  const next = mapChanged<unknown>(list, change);
  return next === list ? holder : { ...holder, [field]: next };
}
