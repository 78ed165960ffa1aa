/** What LiteLLM writes before another vendor's words: its classes of the error, one behind the other, and whose words they are. */
const BEFORE = /^(?:litellm\.)?\w+: (?:(?:litellm\.)?\w+(?:Error|Exception): )*\w+(?:Exception|Error) - /;
/** And behind them: what it tried beside, in its newer and in its older form. */
const BEHIND = ["LiteLLM: model group ", "Received Model Group="];
/** Of a stream it shows the answer as Python does bytes. */
const BYTES = /^b(['"])(.*)\1$/s;

function withoutEnd(words: string): string {
  const ends = BEHIND.map((mark) => words.indexOf(mark)).filter((at) => at >= 0);
  return words.slice(0, Math.min(words.length, ...ends)).trim();
}

/** What words say as JSON, an object or a list; words that are none as they are. */
export function readRecord(words: string): unknown {
  if (!words.startsWith("{") && !words.startsWith("[")) return words;
  try {
    return JSON.parse(words);
  } catch {
    return words;
  }
}

/** And what Bedrock does before those of a model's own server, where it does not say them itself. */
const MODELS = "The model returned the following errors: ";
/** As a pattern, for whoever reads words of a model's own server that may stand alone. */
export const LEAD = `(?:${MODELS})?`;

/** And LM Studio since 0.4.20 before those of its engines (lmstudio-ai/lmstudio-bug-tracker #2220). */
const ENGINES = /^Engine protocol predict request returned \d{3}: (?=\{)/;

/** And Databricks before those of the vendor behind it: nothing, or its own word for them. */
const DATABRICKS = /^(?:[A-Z]+(?:_[A-Z]+)*: )?(?=\{"(?:message|error)")/;

/**
 * The error of another vendor inside the words of one that relays it (LiteLLM, Bedrock, LM Studio, Databricks), as it came or as JSON that was read; undefined for all other
 * words. A vendor's words are known by how they begin, and its JSON is nothing to show.
 */
export function relayedError(words: string): unknown {
  if (words.startsWith(`${MODELS}{`)) return readRecord(words.slice(MODELS.length));
  const engines = ENGINES.exec(words)?.[0];
  if (engines !== undefined) return readRecord(words.slice(engines.length));
  const databricks = DATABRICKS.exec(words)?.[0];
  if (databricks !== undefined) return readRecord(words.slice(databricks.length));
  if (!words.startsWith("litellm.")) return undefined;
  const before = BEFORE.exec(words)?.[0];
  if (before === undefined) return undefined;
  const said = withoutEnd(words.slice(before.length));
  const bytes = BYTES.exec(said)?.[2];
  return readRecord(bytes === undefined ? said : bytes.replace(/\\(['"\\])/g, "$1"));
}
