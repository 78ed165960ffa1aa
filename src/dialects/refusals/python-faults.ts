/** How a list of faults begins that a server shows as Python does: FastAPI's `str()` of one, and pydantic's errors themselves. */
const BEGINNING = /^(?:\d+ validation errors?:\s+|\[)\{'type': '/;
/** One fault of it: where it is, and what is wrong. What was sent stands behind that. */
const FAULT = /\{'type': '\w+', 'loc': \(([^()]*)\), 'msg': (?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g;

/**
 * What a server in Python found amiss in a request, told as FastAPI does in JSON: `body.messages.1.content: Input should be a valid string; …`. A request that
 * may be of several kinds is at fault in each: so more of them are told before an excerpt ends, and nothing of what was sent. Other words stay as they are.
 */
export function plainFaults(words: string): string {
  if (!BEGINNING.test(words)) return words;
  const faults = [...words.matchAll(FAULT)].map(([, place = "", one, other]) => {
    const path = place
      .replaceAll(/['"\s]/g, "")
      .replaceAll(",", ".")
      .replace(/\.$/, "");
    return `${path}: ${one ?? other}`;
  });
  return faults.length === 0 ? words : faults.join("; ");
}
