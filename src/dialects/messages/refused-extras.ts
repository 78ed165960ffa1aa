import { isEmpty, isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { withMarkAtEnd } from "../cache-marks.ts";
import { LEAD } from "../refusals/relayed-error.ts";

type Wire = Record<string, unknown>;

/** The header of a request's betas, which are refused without a word of which; what they are called where they are lost. */
export const BETAS = "anthropic-beta";

/**
 * How servers of this dialect that are not its maker's refuse what they do not know yet: a field by its path, as pydantic writes it, and betas
 * altogether (anthropics/claude-code #12122, #49548, #49648: Bedrock). Nothing else may be said: what a request says is quoted by other refusals.
 */
const PATH = "[a-z_]\\w*(?:\\.\\w+)*";
const EXTRAS = new RegExp(
  `^${LEAD}${PATH}: Extra inputs are not permitted(?:[,;. \\n]+${PATH}: Extra inputs are not permitted)*\\.?$`,
);
const EXTRA = new RegExp(`(${PATH}): Extra inputs are not permitted`, "g");
/** As Fireworks writes it (anomalyco/opencode #24696). Behind the first field stands its value, and so a request's own words. */
const PLACED_EXTRA = new RegExp(
  `^${LEAD}(?:\\d+ request validation errors?: )?Extra inputs are not permitted, field: '([a-z_]\\w*(?:\\.\\w+|\\[\\d+\\])*)', value: `,
);
/** TensorRT-LLM's `serve/anthropic_adapter.py`, of one value of a field. */
const NO_VALUE = new RegExp(`^${LEAD}(${PATH})=true is not supported\\.?$`);
const NO_BETA = new RegExp(`^${LEAD}invalid beta flag\\.?$`, "i");
/** Which of the betas are not known (Anthropic's "Beta headers": error handling; Bedrock and others say the same of their own). */
const UNKNOWN_BETAS = new RegExp(
  `^${LEAD}Unexpected value\\(s\\) (\`[^\`]+\`(?:, \`[^\`]+\`)*) for the \`${BETAS}\` header(?:\\.(?: Please consult [^\`]*)?)?$`,
);

/** Without these the request would be another one, and a block none: who refuses them is told nothing else. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  [
    "model messages max_tokens system tools tool_choice stream stop_sequences temperature top_p top_k thinking",
    "role content type text source data media_type url id name input input_schema description tool_use_id signature",
  ]
    .join(" ")
    .split(" "),
);

/** A request's betas as one word, the same in whatever order: those of its head, and of its body for some vendors. "": none. */
export function betasIn(header: string | null | undefined, body: Wire): string {
  const own = listOf(body["anthropic_beta"]);
  const all = [...(header ?? "").split(","), ...own.map(String)].map((beta) => beta.trim());
  return [...new Set(all)]
    .filter((beta) => beta !== "")
    .sort()
    .join(",");
}

/** What refused betas are kept in mind as: the name of one, or a whole list as {@link betasIn} tells it. */
export const betasKey = (betas: string): string => `${BETAS}: ${betas}`;

const isEssential = (path: string): boolean => ESSENTIAL.has(path.slice(path.lastIndexOf(".") + 1));

/** What a vendor says that it does not know, and nothing more: paths of fields, betas by name ({@link betasKey}), or {@link BETAS}. */
export function readRefusedExtras(words: string): string[] {
  if (NO_BETA.test(words)) return [BETAS];
  const named = UNKNOWN_BETAS.exec(words)?.[1];
  if (named !== undefined) return named.split(", ").map((name) => betasKey(name.slice(1, -1)));
  const valued = NO_VALUE.exec(words)?.[1];
  if (valued !== undefined) return isEssential(valued) ? [] : [valued];
  const placed = PLACED_EXTRA.exec(words)?.[1]?.replace(/\[(\d+)\]/g, ".$1");
  if (placed !== undefined) return isEssential(placed) ? [] : [placed];
  if (!EXTRAS.test(words)) return [];
  return [...words.matchAll(EXTRA)].map(([, path = ""]) => path).filter((path) => !isEssential(path));
}

/** Whether an object is of the kind that a path names: a block of that type, or a tool that says none. */
const isOfKind = (value: Wire, kind: string): boolean => (value["type"] ?? "custom") === kind;

/** Takes one field out of a value, in every entry of the lists on its way: what one tool must not say, none may. */
class Removal {
  /** Where the field stood, `[]` for an entry of a list; undefined: nowhere. */
  place: string | undefined;

  constructor(private readonly steps: readonly string[]) {}

  /** `value` without the field; the very same where it is not there. An object that held nothing else goes with it. */
  from(value: unknown, at = 0, place = ""): unknown {
    const step = this.steps[at];
    if (step === undefined) return value;
    if (Array.isArray(value)) {
      return /^\d+$/.test(step) ? mapChanged(value, (entry) => this.from(entry, at + 1, `${place}[]`)) : value;
    }
    if (!isObject(value)) return value;
    const path = place === "" ? step : `${place}.${step}`;
    const held = value[step];
    if (at === this.steps.length - 1) {
      if (held === undefined) return value;
      this.place ??= path;
      return without(value, step);
    }
    // The kind of a block or a tool stands in the path too, and is no field of it: what one kind must not say another may.
    if (typeof held !== "object" || held === null)
      return isOfKind(value, step) ? this.from(value, at + 1, place) : value;
    const next = this.from(held, at + 1, path);
    if (next === held) return value;
    return isObject(next) && isEmpty(next) ? without(value, step) : { ...value, [step]: next };
  }
}

function without(value: Wire, field: string): Wire {
  const { [field]: _gone, ...rest } = value;
  return rest;
}

/**
 * A request's betas without those that are refused, by name or as a list: its header ("": none) and what the body's own list becomes. Undefined where it
 * loses none.
 */
export function leaveOutBetas(
  header: string | undefined,
  body: Wire,
  refused: readonly string[],
): { header: string; edits: Edits } | undefined {
  const all = betasIn(header, body);
  if (all === "") return undefined;
  const isLeft = refused.includes(betasKey(all))
    ? () => false
    : (beta: string) => !refused.includes(betasKey(beta.trim()));
  if (all.split(",").every(isLeft)) return undefined;
  const own = listOf(body["anthropic_beta"]);
  const ownLeft = own.filter((beta) => isLeft(String(beta)));
  const edits = ownLeft.length < own.length ? { anthropic_beta: ownLeft.length > 0 ? ownLeft : undefined } : {};
  return { header: (header ?? "").split(",").filter(isLeft).join(","), edits };
}

/** The mark for a whole body: Bedrock and Vertex know those of blocks alone (platform.claude.com, "Prompt caching"). */
const WHOLE_MARK = "cache_control";

/** A body whose own mark stands at its end; itself where it has none, or nothing there can carry it. */
function withMarkMoved(body: Wire): Wire {
  const { [WHOLE_MARK]: mark, ...rest } = body;
  const messages = isObject(mark) ? withMarkAtEnd(rest["messages"], mark) : undefined;
  return messages === undefined ? body : { ...rest, messages };
}

/** Edits by which a body has none of these fields, and the places of those that it had and that are not told otherwise. */
export function leaveOutExtras(body: Wire, paths: readonly string[]): { edits: Edits; lost: string[] } {
  const edits: Edits = {};
  const lost: string[] = [];
  let left: unknown = paths.includes(WHOLE_MARK) ? withMarkMoved(body) : body;
  for (const path of paths) {
    const removal = new Removal(path.split("."));
    left = removal.from(left);
    if (removal.place !== undefined) lost.push(removal.place);
  }
  if (!isObject(left)) return { edits, lost };
  for (const field in body) if (left[field] !== body[field]) edits[field] = left[field];
  return { edits, lost };
}
