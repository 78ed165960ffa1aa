/** Half of a surrogate pair, as JSON escapes it, without its other half; what is escaped itself (`\\ud83d`) is none. */
const LONE_ESCAPE =
  /(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})/g;

/**
 * JSON text without lone surrogates, each replaced as `toWellFormed` does: several vendors refuse a whole request for one
 * (dialects.md 4.8 #44). Text without any comes back as it is.
 */
export function soundText(json: string): string {
  // One look is enough at most texts: they escape no character by its number.
  if (!json.includes("\\u") || (!json.includes("\\ud") && !json.includes("\\uD"))) return json;
  return json.replace(LONE_ESCAPE, "$1\\ufffd");
}
