import type { Event } from "../../canon/events.ts";
import { NO_USAGE, type Usage } from "../../canon/usage.ts";
import { isEmpty, isObject, listOf } from "../../lib/json.ts";
import { type Edits, editObject } from "../../lib/json-text.ts";
import type { Relabeler, ReplyContext } from "../dialect.ts";
import { type Frame, recordWith } from "../frames.ts";
import { repairHead, wholeSeconds } from "../openai-fields.ts";
import { namesAlone } from "../reply/names.ts";
import { type RecordWriter, RunWriter } from "../run-writer.ts";
import { finishOf, goesOn, isTerminator, replySeed } from "./decode-stream.ts";
import { CHUNK, replyIdOf, TERMINATOR, usageChunk } from "./encode-stream.ts";
import { writeFinish } from "./finish.ts";
import { ChoiceRepairer } from "./repair.ts";
import { readUsage, soundUsage, writeUsage } from "./usage.ts";

type Wire = Record<string, unknown>;

/** A record's value; undefined for what is torn off behind the end of a whole reply, which the decoder lets pass. */
function readValue(frame: Frame): unknown {
  try {
    return frame.value;
  } catch {
    // Nothing of it can be forwarded, and nothing of it is missed.
    return undefined;
  }
}

const isEnd = (choice: unknown): boolean => isObject(choice) && finishOf(choice) !== undefined;

const placeOf = (choice: unknown): number => {
  const index = isObject(choice) ? choice["index"] : undefined;
  return typeof index === "number" ? index : 0;
};

/** The choice whose words alone come as runs. */
const isFirst = (choice: unknown): boolean => placeOf(choice) === 0;

/** What was taken for the end was none. */
const unended = (choice: unknown): unknown => (isObject(choice) ? { ...choice, finish_reason: null } : choice);

const isGoingOn = (choice: unknown): boolean => isObject(choice) && goesOn(choice);

/** Forwards a chat stream to a chat client: only the model ID is exchanged, and what would break an SDK is repaired (dialects.md 1.4). */
export class ChatRelabeler implements Relabeler, RecordWriter {
  #context: ReplyContext;
  #upstreamModel: unknown;
  #literal = "";
  #replacement: string;
  #id: string | undefined;
  /** When the reply was made, by its vendor's word. */
  #created: number | undefined;
  #seed: string | undefined;
  #first: ChoiceRepairer | undefined;
  /** Choices beside the first: hardly any stream has some, and thousands of streams wait at once. */
  #others: Map<number, ChoiceRepairer> | undefined;
  /** Records that say that choices end, until it is seen that they do: some vendors say it with every record. */
  #ends: Frame[] | undefined;
  /** The record with the vendor's own usage object that the client gets at the end. */
  #usageText: string | undefined;
  /** That of a record which came behind those held back: where each counts anew, the last one says it (dialects.md 4.8 #18). */
  #laterUsageText: string | undefined;
  #usage: Usage | undefined;
  #finish = "stop";
  /** The vendor's names of tools → the client's, where they are not the same. */
  readonly #names: ReadonlyMap<string, string> | undefined;
  readonly #runs = new RunWriter(this);

  constructor(context: ReplyContext) {
    this.#context = context;
    this.#names = context.changes && namesAlone(context.changes);
    this.#replacement = `"model":${JSON.stringify(context.model)}`;
  }

  writeRecord(record: Frame): string {
    return this.push(record, []);
  }

  writeRaw(raw: string): string {
    return raw.replaceAll(this.#literal, this.#replacement);
  }

  push(frame: Frame, events: readonly Event[]): string {
    // A run without any words, of which there is no event, says no more than an empty delta does.
    if (frame.run)
      return (events.length > 0 ? this.#release(isFirst) : "") + this.#runs.write(frame, frame.run, events);
    if (events.length > 0) this.#note(events);
    // The error itself is written by whoever ends the stream.
    if (events.at(-1)?.type === "error") return "";
    if (frame.data.trim() === "" || isTerminator(frame.data)) return "";
    const value = readValue(frame);
    if (!isObject(value)) return "";
    const before = this.#ends ? this.#readOn(listOf(value["choices"]).filter(isGoingOn)) : "";
    if (!listOf(value["choices"]).some(isEnd)) return before + this.#passOn(frame, value);
    this.#ends ??= [];
    this.#ends.push(frame);
    if (isObject(value["usage"])) this.#laterUsageText = undefined;
    return before;
  }

  /** A record that is not held back. What it counts came behind all that is. */
  #passOn(frame: Frame, value: Wire): string {
    const before = this.#usageText;
    const text = this.#pass(frame, value);
    if (this.#ends && this.#usageText !== before) this.#laterUsageText = this.#usageText;
    return text;
  }

  /** Another choice goes on behind one that has ended; the one that seemed to have does so where its vendor says the word with every record. */
  #readOn(going: readonly unknown[]): string {
    if (going.length === 0) return "";
    const places = new Set(going.map(placeOf));
    return this.#release((choice) => places.has(placeOf(choice)));
  }

  /** Records that were held back go out, without the end of those choices that `goOn`. */
  #release(goOn: (choice: unknown) => boolean = () => false): string {
    const ends = this.#ends ?? [];
    this.#ends = undefined;
    let text = "";
    for (const frame of ends) {
      const value = readValue(frame);
      if (!isObject(value)) continue;
      const isNoEnd = (choice: unknown) => isEnd(choice) && goOn(choice);
      const choices = listOf(value["choices"]);
      const edits = choices.some(isNoEnd)
        ? { choices: choices.map((choice) => (isNoEnd(choice) ? unended(choice) : choice)) }
        : {};
      text += this.#pass(frame, { ...value, ...edits }, edits);
    }
    this.#usageText = this.#laterUsageText ?? this.#usageText;
    this.#laterUsageText = undefined;
    return text;
  }

  /** `given`: what of the value is not as it stands in the record. */
  #pass(frame: Frame, value: Wire, given: Edits = {}): string {
    const choices = value["choices"];
    const hasUsage = readUsage(value["usage"], false) !== undefined;
    const edits: Edits = { ...given };
    let sound: readonly unknown[] = [];
    if (Array.isArray(choices)) {
      if (choices.length > 0) this.#seed ??= replySeed(value);
      sound = this.#repairChoices(choices);
      if (sound !== choices) edits["choices"] = sound;
      if (sound.length === 0 && !hasUsage && (choices.length > 0 || isObject(value["usage"]))) return "";
    } else {
      edits["choices"] = sound;
    }
    if (sound.length > 0 || hasUsage) this.#fillHead(value, edits);
    // SDKs with checked types refuse a chunk without these two, and Azure's first one, whose object is "".
    if (value["object"] !== CHUNK) edits["object"] = CHUNK;
    repairHead(value, this.#created ?? this.#context.created, edits);
    // What says that there was no error: OpenAI's SDK for Go ends a stream at the field, whatever it holds.
    if ("error" in value) edits["error"] = undefined;
    const usage = hasUsage ? soundUsage(value["usage"]) : undefined;
    if (hasUsage && usage !== value["usage"]) edits["usage"] = usage;
    if (hasUsage && sound.length === 0) return this.#hold(frame, edits);
    if (hasUsage) this.#usageText = this.#usageChunk(usage);
    // Beside choices it is no client's, asked for or not: OpenAI's SDK for Java reads nothing else of a chunk that has it, and loses the finish reason. One
    // that tells nothing yet (MiniMax, SGLang) is refused by those with checked types.
    if (isObject(value["usage"])) edits["usage"] = this.#context.wantsUsage ? null : undefined;
    return this.#write(frame, value, edits);
  }

  end(events: readonly Event[]): string {
    this.#note(events);
    let text = this.#release();
    for (const choice of this.#allChoices()) {
      if (!choice.finished) text += this.#finishChunk(choice, choice.index === 0 ? this.#finish : "stop");
    }
    if (this.#context.wantsUsage) text += this.#usageText ?? this.#ownUsageChunk();
    return text + TERMINATOR;
  }

  #note(events: readonly Event[]): void {
    for (const event of events) {
      if (event.type === "usage") this.#usage = event.usage;
      else if (event.type === "finish") this.#finish = writeFinish(event.finish);
    }
  }

  #repairChoices(choices: readonly unknown[]): readonly unknown[] {
    let changed = false;
    const repaired: Wire[] = [];
    for (const choice of choices) {
      const sound = isObject(choice) ? this.#choiceOf(choice["index"]).repair(choice, this.#seed ?? "") : undefined;
      if (sound !== choice) changed = true;
      if (sound) repaired.push(sound);
    }
    return changed ? repaired : choices;
  }

  #choiceOf(index: unknown): ChoiceRepairer {
    const place = typeof index === "number" && Number.isInteger(index) && index >= 0 ? index : 0;
    if (place === 0) {
      this.#first ??= new ChoiceRepairer(0, this.#context, this.#names);
      return this.#first;
    }
    this.#others ??= new Map();
    let choice = this.#others.get(place);
    if (!choice) {
      choice = new ChoiceRepairer(place, this.#context, this.#names);
      this.#others.set(place, choice);
    }
    return choice;
  }

  /** Every choice that was seen, the first before all; a reply without any has that one. */
  #allChoices(): ChoiceRepairer[] {
    const others = this.#others ? [...this.#others.values()] : [];
    const first = this.#first ?? (others.length === 0 ? new ChoiceRepairer(0, this.#context, this.#names) : undefined);
    return first ? [first, ...others] : others;
  }

  /** SDKs take usage only from a chunk with an id, and ids and times are the same on every chunk: a missing id is filled, the time is kept for chunks of our own. */
  #fillHead(value: Wire, edits: Edits): void {
    const { id, created } = value;
    this.#created ??= wholeSeconds(created);
    if (typeof id === "string" && id !== "") this.#id ??= id;
    else edits["id"] = this.#id ??= replyIdOf(this.#context);
  }

  /** A usage record goes out at the very end: anything with `usage: null` behind it would wipe it (dialects.md 1.4). */
  #hold(frame: Frame, edits: Edits): string {
    this.#usageText = this.#edit(frame, edits);
    return "";
  }

  #write(frame: Frame, value: Wire, edits: Edits): string {
    if (!isEmpty(edits)) return this.#edit(frame, edits);
    const model = value["model"];
    if (model !== this.#upstreamModel) {
      this.#upstreamModel = model;
      this.#literal = typeof model === "string" ? `"model":${JSON.stringify(model)}` : "";
      // Once a stream: does the quick way give what the careful one gives?
      if (this.#splice(frame.raw) !== this.#edit(frame, edits)) this.#literal = "";
    }
    return this.#splice(frame.raw) ?? this.#edit(frame, edits);
  }

  #edit(frame: Frame, edits: Edits): string {
    return recordWith(frame, editObject(frame.data, { ...edits, model: this.#context.model }));
  }

  /** The record with the model's literal exchanged, where it stands exactly once: inside a JSON string its quotes would be escaped. */
  #splice(raw: string): string | undefined {
    if (this.#literal === "") return undefined;
    const at = raw.indexOf(this.#literal);
    const after = at + this.#literal.length;
    if (at < 0 || raw.indexOf(this.#literal, after) >= 0 || raw.includes("\n") || raw.includes("\r")) return undefined;
    return `${raw.slice(0, at)}${this.#replacement}${raw.slice(after)}\n\n`;
  }

  #finishChunk(choice: ChoiceRepairer, finish: string): string {
    choice.finished = true;
    const rest = choice.emptyCalls();
    const chunk = {
      id: this.#id ?? replyIdOf(this.#context),
      object: CHUNK,
      created: this.#created ?? this.#context.created,
      model: this.#context.model,
      choices: [
        {
          index: choice.index,
          delta: choice.roleSent ? (rest.length > 0 ? { tool_calls: rest } : {}) : { role: "assistant", content: "" },
          logprobs: null,
          finish_reason: finish,
        },
      ],
      ...(this.#context.wantsUsage && { usage: null }),
    };
    return `data: ${JSON.stringify(chunk)}\n\n`;
  }

  #ownUsageChunk(): string {
    return this.#usageChunk(writeUsage(this.#usage ?? NO_USAGE));
  }

  #usageChunk(usage: unknown): string {
    return usageChunk(this.#context, usage, this.#id, this.#created);
  }
}
