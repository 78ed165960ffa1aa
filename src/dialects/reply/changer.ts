import type { Event, Finish } from "../../canon/events.ts";
import type { ReplyChanges } from "../dialect.ts";
import { InputReader, wrapInput } from "../tools/custom-tools.ts";
import { StopWatch } from "./stop-watch.ts";

type BlockStart = Extract<Event, { type: "block-start" }>;

/** How the deltas of the open block are changed: nothing of it yet, or as they come, or by one of three ways. */
type Open =
  | { kind: "as-it-comes" }
  | { kind: "text"; start: BlockStart | undefined }
  | { kind: "free-text"; reader: InputReader }
  | { kind: "function"; text: string };

/**
 * Changes a reply back to what its client asked (dialects.md 1.1, 4.1, 4.3): tools under the client's own names, custom tools' calls as
 * free text and other ones as functions, and a text that ends at the stop sequences which the upstream was not told.
 */
export class ReplyChanger {
  readonly #changes: ReplyChanges;
  #watch: StopWatch | undefined;
  #open: Open = { kind: "as-it-comes" };
  #calledTool = false;
  /** The stop sequence that was met: what else the model said is not for the client. */
  #stopped: string | undefined;

  constructor(changes: ReplyChanges) {
    this.#changes = changes;
    if (changes.stops && changes.stops.length > 0) this.#watch = new StopWatch(changes.stops);
  }

  /** The events to write for this one, perhaps none. */
  push(event: Event): readonly Event[] {
    if (this.#stopped !== undefined) return this.#afterStop(event);
    switch (event.type) {
      case "block-start":
        return this.#start(event);
      case "block-delta":
        return this.#delta(event.text);
      case "block-end":
        return this.#end();
      case "block-signature":
      case "block-citation":
        return [...this.#takeStart(), event];
      case "error":
        return [...this.#heldText(), event];
      default:
        return [event];
    }
  }

  #afterStop(event: Event): readonly Event[] {
    if (event.type === "usage" || event.type === "error") return [event];
    if (event.type !== "finish") return [];
    const stopSequence = this.#stopped ?? "";
    const { tier } = event.finish;
    const finish: Finish = this.#calledTool ? { reason: "tool-calls" } : { reason: "stop-sequence", stopSequence };
    return [{ type: "finish", finish: { ...finish, ...(tier !== undefined && { tier }) } }];
  }

  #start(event: BlockStart): readonly Event[] {
    const { block } = event;
    this.#open = { kind: "as-it-comes" };
    if (block.kind === "text" && this.#watch) {
      this.#open = { kind: "text", start: event };
      return [];
    }
    if (block.kind !== "tool-call") return [event];
    this.#calledTool = true;
    const name = this.#changes.toolNames?.get(block.name) ?? block.name;
    const isCustom = this.#changes.customTools?.has(name) === true;
    if (isCustom && !block.custom) this.#open = { kind: "free-text", reader: new InputReader() };
    else if (block.custom && !isCustom) this.#open = { kind: "function", text: "" };
    const { custom: _custom, ...call } = block;
    const form = this.#changes.toolForms?.get(name);
    const kind = { ...(isCustom && { custom: true as const }), ...(form !== undefined && { form }) };
    return [{ type: "block-start", block: { ...call, name, ...kind } }];
  }

  #delta(text: string): readonly Event[] {
    const open = this.#open;
    switch (open.kind) {
      case "text":
        return this.#text(open, text);
      case "free-text":
        return deltas(open.reader.push(text));
      case "function":
        // Free text of a tool that the client knows as a function: its arguments must be JSON, which is written at the end.
        open.text += text;
        return [];
      default:
        return [{ type: "block-delta", text }];
    }
  }

  #text(open: Extract<Open, { kind: "text" }>, text: string): readonly Event[] {
    const found = this.#watch?.push(text) ?? text;
    const stopped = typeof found === "string" ? undefined : found.stop;
    const shown = typeof found === "string" ? found : found.text;
    const out: Event[] = [];
    if (shown !== "") out.push(...this.#takeStart(), { type: "block-delta", text: shown });
    if (stopped === undefined) return out;
    if (!open.start) out.push({ type: "block-end" });
    this.#stopped = stopped;
    return out;
  }

  /** The beginning of a text block, which waits for what is to be shown of it. */
  #takeStart(): Event[] {
    const open = this.#open;
    if (open.kind !== "text" || !open.start) return [];
    const start = open.start;
    open.start = undefined;
    return [start];
  }

  /** What might have begun a stop sequence, where the reply breaks off before it does: it is paid for. */
  #heldText(): Event[] {
    const text = this.#open.kind === "text" ? (this.#watch?.end() ?? "") : "";
    return text === "" ? [] : [...this.#takeStart(), ...deltas(text)];
  }

  #end(): readonly Event[] {
    const start = this.#takeStart();
    const open = this.#open;
    this.#open = { kind: "as-it-comes" };
    const end: Event = { type: "block-end" };
    if (open.kind === "text") return [...start, ...deltas(this.#watch?.end() ?? ""), end];
    if (open.kind === "free-text") return [...deltas(open.reader.end()), end];
    if (open.kind === "function") return [...deltas(open.text === "" ? "" : wrapInput(open.text)), end];
    return [end];
  }
}

const deltas = (text: string): Event[] => (text === "" ? [] : [{ type: "block-delta", text }]);

/** Calls and stop sequences are all that is changed: a reply may be marked for a change that it does not need. */
const isChanged = (events: readonly Event[], { stops }: ReplyChanges): boolean =>
  (stops !== undefined && stops.length > 0) || events.some(beginsCall);

const beginsCall = (event: Event): boolean => event.type === "block-start" && event.block.kind === "tool-call";

/** {@link ReplyChanger} for the events of a whole reply; themselves where nothing is to be changed. */
export function changeEvents(events: readonly Event[], changes: ReplyChanges | undefined): readonly Event[] {
  if (!changes || !isChanged(events, changes)) return events;
  const changer = new ReplyChanger(changes);
  return events.flatMap((event) => changer.push(event));
}
