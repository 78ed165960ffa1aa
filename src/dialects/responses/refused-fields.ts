import type { Quirks } from "../dialect.ts";
import { knowsAll } from "../knows-all.ts";

const PLACE = "[a-z_]\\w*(?:\\.\\w+|\\[\\d+\\])*";

/**
 * How servers of this dialect say that they do not know a field, which agents send to each of them: OpenAI and those that write as it does (openai/codex
 * #10834; Wei-Shaw/sub2api #7066), OpenCode's (lidge-jun/opencodex #4853), xAI (router-for-me/CLIProxyAPI #5648). What is in the way may stand before it.
 */
const UNKNOWN = new RegExp(
  `(?:\\b(?:unknown|unsupported) (?:parameter|field):?|^Argument not supported(?: on this model)?:) ['"\`]?(${PLACE})['"\`]?(?: is not supported with this model)?\\.?$`,
  "i",
);
/** And how those do that check what they read by other means, of fields of the request itself: pydantic (FastAPI, vLLM), Fireworks, Groq, Rust's reader, Zod (LM Studio). */
const UNREAD =
  /(?:^|\bbody\.)([a-z_]\w*): Extra inputs are not permitted|^Extra inputs are not permitted, field: '([a-z_]\w*)'|^property '([a-z_]\w*)' is unsupported|\bunknown field `([a-z_]\w*)`, expected\b|^Unrecognized key\(s\) in object: '([a-z_]\w*)'/;
/** How it and Azure say that it is their model which does not take a field. */
const OF_MODEL = /\bis not supported with this model\.?$/;
/** How OpenAI says that an organisation has not been let into a programme that an agent asks for by itself (openai/codex #46481). */
const NOT_ENABLED = /^The ([a-z_]+) parameter is not enabled for this organization\.?$/;

/** Without these the request would be another one, an item none, or an answer longer than is paid for. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  [
    "model input instructions tools tool_choice stream max_output_tokens max_tool_calls prompt previous_response_id conversation background",
    "type role content text format schema name namespace parameters arguments call_id output action summary encrypted_content",
    "image_url file_data file_url file_id",
  ]
    .join(" ")
    .split(" "),
);

/** See {@link UpstreamDialect.refusedFields}. Who is known to know all of the dialect is taught no more than what its model does not take, and its own organisations' rights. */
export function readRefusedFields(words: string, quirks: Quirks): string[] {
  const isTaught = !knowsAll(quirks) || OF_MODEL.test(words);
  const unknown = isTaught ? (UNKNOWN.exec(words) ?? UNREAD.exec(words)) : null;
  const place = (unknown ?? NOT_ENABLED.exec(words))?.slice(1).find((name) => name !== undefined);
  if (place === undefined) return [];
  const path = place.replace(/\[(\d+)\]/g, ".$1");
  return ESSENTIAL.has(path.slice(path.lastIndexOf(".") + 1)) ? [] : [path];
}
