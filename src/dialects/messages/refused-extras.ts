import { type Edits, isObject } from "../../lib/json.ts";

type Wire = Record<string, unknown>;

/** Stands for all betas of a request, which are refused without a word of which. */
export const BETAS = "anthropic-beta";

/**
 * How servers of this dialect that are not its maker's refuse what they do not know yet: a field by its path, as pydantic writes it, and betas
 * altogether (anthropics/claude-code #49370, #82549: Bedrock).
 */
const EXTRA = /([a-z_]\w*(?:\.\w+)*): Extra inputs are not permitted/g;
const NO_BETA = /\binvalid beta flag\b/i;

/** Without these the request would be another one: who refuses them is told nothing else. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  "model messages max_tokens system tools tool_choice stream stop_sequences temperature top_p top_k thinking".split(
    " ",
  ),
);

/** What a vendor says that it does not know: paths of fields, and {@link BETAS}. */
export function readRefusedExtras(words: string): string[] {
  const paths = [...words.matchAll(EXTRA)].map(([, path = ""]) => path).filter((path) => !ESSENTIAL.has(path));
  return NO_BETA.test(words) ? [BETAS, ...paths] : paths;
}

const isEmpty = (value: unknown): boolean => isObject(value) && Object.keys(value).length === 0;

/** Takes one field out of a value, in every entry of the lists on its way: what one tool must not say, none may. */
class Removal {
  /** Where the field stood, `[]` for an entry of a list; undefined: nowhere. */
  place: string | undefined;

  constructor(private readonly steps: readonly string[]) {}

  /** `value` without the field; the very same where it is not there. An object that held nothing else goes with it. */
  from(value: unknown, at = 0, place = ""): unknown {
    const step = this.steps[at];
    if (step === undefined) return value;
    if (Array.isArray(value)) return /^\d+$/.test(step) ? this.#fromList(value, at, place) : value;
    if (!isObject(value)) return value;
    const path = place === "" ? step : `${place}.${step}`;
    const held = value[step];
    if (at === this.steps.length - 1) {
      if (held === undefined) return value;
      this.place ??= path;
      return without(value, step);
    }
    // The kind of a block or a tool stands in the path too, and is no field of it.
    if (typeof held !== "object" || held === null) return this.from(value, at + 1, place);
    const next = this.from(held, at + 1, path);
    if (next === held) return value;
    return isEmpty(next) ? without(value, step) : { ...value, [step]: next };
  }

  #fromList(list: readonly unknown[], at: number, place: string): unknown {
    const next = list.map((entry) => this.from(entry, at + 1, `${place}[]`));
    return next.some((entry, index) => entry !== list[index]) ? next : list;
  }
}

function without(value: Wire, field: string): Wire {
  const { [field]: _gone, ...rest } = value;
  return rest;
}

/** Edits by which a body says none of what was refused, and the places of what it did say. Betas stand in the body for some vendors. */
export function leaveOutExtras(body: Wire, refused: Iterable<string>): { edits: Edits; lost: string[] } {
  const edits: Edits = {};
  const lost: string[] = [];
  let left: unknown = body;
  for (const path of refused) {
    const removal = new Removal(path === BETAS ? ["anthropic_beta"] : path.split("."));
    left = removal.from(left);
    if (removal.place !== undefined) lost.push(path === BETAS ? BETAS : removal.place);
  }
  if (!isObject(left)) return { edits, lost };
  for (const field in body) if (left[field] !== body[field]) edits[field] = left[field];
  return { edits, lost };
}
