import type {
  ImagePart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from "../../canon/prompt.ts";
import { Lines } from "../lines.ts";
import { nameLostDetail } from "../loss/unsayable.ts";
import { nameLostReasoning } from "../reasoning/lost-reasoning.ts";
import { asReminder, CONTINUE_TEXT, EMPTY_TEXT, NO_RESULT_TEXT, strayHead } from "../refusals/own-words.ts";
import { cleanText } from "../text.ts";
import { attachedBelow } from "../tools/attached-media.ts";
import { ToolIds } from "../tools/tool-ids.ts";
import { toInput } from "../tools/tool-input.ts";
import { encodeAudio, encodeDocument, encodeMedia, encodeVideo } from "./media.ts";
import { type Proof, unpackProof } from "./proof.ts";

type Wire = Record<string, unknown>;
export type Content = { role: "user" | "model"; parts: Wire[] };

/** What a call and its result both hold: its name, and its id where the model takes ids. */
type Named = { id?: string; name: string };
/** A call of the model's last turn, which waits for its result. `callId` is the client's id for it. */
type Waiting = { callId: string; named: Named; result?: ToolResultPart };

function addText(text: string, parts: Wire[]): void {
  if (text !== "") parts.push({ text: cleanText(text) });
}

/** Adds a part that users may send, also inside a tool result, to `parts`; nothing for those that only assistants have. */
function addUserPart(part: Part, parts: Wire[], dropped: string[]): void {
  if (part.type === "text") addText(part.text, parts);
  else if (part.type === "image") {
    nameLostDetail(part, dropped);
    parts.push(encodeMedia(part));
  } else if (part.type === "document") parts.push(...encodeDocument(part));
  else if (part.type === "audio") parts.push(encodeAudio(part));
  else if (part.type === "opaque") {
    const video = encodeVideo(part.value);
    if (video) parts.push(video);
    else dropped.push(part.name);
  }
}

const NONE: readonly Wire[] = [];

/** An assistant's turn while it is written: a signature that stands on reasoning is moved to the part that it belongs to. */
class ModelTurn {
  readonly parts: Wire[] = [];
  calls: Waiting[] | undefined;
  #forCall: Proof | undefined;

  constructor(
    readonly dropped: string[],
    readonly ids: ToolIds | undefined,
  ) {}

  add(part: Part): void {
    if (part.type === "text") this.#text(part);
    else if (part.type === "reasoning") this.#reasoning(part);
    else if (part.type === "redacted-reasoning") nameLostReasoning(part, this.dropped);
    else if (part.type === "tool-call") this.#call(part);
    else if (part.type === "opaque") this.dropped.push(part.name);
    else if (part.type === "image" && part.source.kind === "base64") this.#image(part);
    else this.dropped.push(("place" in part && part.place) || `assistant ${part.type}`);
  }

  /** A text's signature came at its end, and goes back in an empty part behind it, as the vendor itself may send it (dialects.md 3.3). */
  #text(part: TextPart): void {
    addText(part.text, this.parts);
    const proof = unpackProof(part.signature);
    if (proof) this.parts.push({ text: "", thoughtSignature: proof.signature });
  }

  /** An image that the model drew earlier, which it may be asked to change. */
  #image(part: ImagePart): void {
    const proof = unpackProof(part.signature);
    this.parts.push({ ...encodeMedia(part), ...(proof && { thoughtSignature: proof.signature }) });
  }

  /** Reasoning goes back only when its proof shows that this vendor made it (dialects.md 4.4). */
  #reasoning(part: ReasoningPart): void {
    const proof = unpackProof(part.signature);
    if (!proof) {
      nameLostReasoning(part, this.dropped);
      return;
    }
    const { text } = part;
    const thought = text === "" ? undefined : { text: cleanText(text), thought: true };
    if (proof.place === "thought" && thought) this.parts.push({ ...thought, thoughtSignature: proof.signature });
    else if (thought) this.parts.push(thought);
    if (proof.place === "call") this.#forCall = proof;
    else if (proof.place === "text") this.parts.push({ text: "", thoughtSignature: proof.signature });
  }

  #call(part: ToolCallPart): void {
    const proof = unpackProof(part.signature) ?? this.#forCall;
    this.#forCall = undefined;
    const named = { ...(this.ids && { id: this.ids.take(part.id) }), name: part.name };
    this.calls ??= [];
    this.calls.push({ callId: part.id, named });
    const call: Wire = { functionCall: { ...named, args: toInput(part.arguments) } };
    if (proof) call["thoughtSignature"] = proof.signature;
    this.parts.push(call);
  }
}

/** Writes the turns of one request, and keeps track of the calls that still wait for their results. */
class ContentWriter {
  readonly contents: Content[] = [];
  #waiting: Waiting[] | undefined;
  #unanswered = new Lines<string, Waiting>();
  #attachedMedia = 0;

  constructor(
    readonly dropped: string[],
    readonly ids: ToolIds | undefined,
  ) {}

  #add(role: Content["role"], parts: Wire[]): void {
    const last = this.contents.at(-1);
    if (last?.role === role) for (const part of parts) last.parts.push(part);
    else this.contents.push({ role, parts });
  }

  /** Results first, one for each call and in the calls' order: anything else is refused (dialects.md 4.4). */
  user(turn: Turn): void {
    const others: Wire[] = [];
    for (const part of turn.parts) {
      if (part.type !== "tool-result") {
        addUserPart(part, others, this.dropped);
        continue;
      }
      const call = this.#unanswered.take(part.callId);
      if (call) call.result = part;
      else this.#addStrayResult(part, others);
    }
    const results = this.takeResults();
    const parts = results.length === 0 ? others : [...results, ...others];
    this.#add("user", parts.length > 0 ? parts : [{ text: EMPTY_TEXT }]);
  }

  /** A turn that holds nothing is left out. */
  assistant(turn: Turn): void {
    const unanswered = this.takeResults();
    if (unanswered.length > 0) this.#add("user", [...unanswered]);
    const model = new ModelTurn(this.dropped, this.ids);
    for (const part of turn.parts) model.add(part);
    if (model.parts.length === 0) return;
    if (this.contents.length === 0) this.#add("user", [{ text: CONTINUE_TEXT }]);
    this.#add("model", model.parts);
    this.#waiting = model.calls;
    if (model.calls) for (const call of model.calls) this.#unanswered.add(call.callId, call);
  }

  /** What the system says in mid-conversation is text of the user's, marked as not the user's own (dialects.md 4.1). It takes text alone. */
  system(turn: Turn): void {
    const parts = [...this.takeResults()];
    for (const part of turn.parts) if (part.type === "text" && part.text !== "") addText(asReminder(part.text), parts);
    if (parts.length > 0) this.#add("user", parts);
  }

  /** The results of all waiting calls, and behind them the media of these results. A call without a result gets an error. */
  takeResults(): readonly Wire[] {
    if (!this.#waiting) return NONE;
    const attached: Wire[] = [];
    this.#attachedMedia = 0;
    this.#unanswered = new Lines();
    const responses = this.#waiting.map(({ named, result }) => ({
      functionResponse: { ...named, response: result ? this.#response(result, attached) : { error: NO_RESULT_TEXT } },
    }));
    this.#waiting = undefined;
    return [...responses, ...attached];
  }

  /** A tool's result as the object that this dialect wants. Its media are added to `attached`; a label in both places connects them. */
  #response(result: ToolResultPart, attached: Wire[]): Wire {
    const lines: string[] = [];
    for (const part of result.parts) {
      const parts: Wire[] = [];
      addUserPart(part, parts, this.dropped);
      const media = parts.filter((one) => !("text" in one));
      for (const one of parts) if (typeof one["text"] === "string") lines.push(one["text"]);
      if (media.length === 0) continue;
      const label = `${part.type} ${this.#attachedMedia + 1}`;
      this.#attachedMedia += media.length;
      lines.push(attachedBelow(label));
      attached.push({ text: `[${label} of the tool results above]` }, ...media);
    }
    const text = lines.join("\n");
    return result.isError ? { error: text } : { output: text };
  }

  /** A result whose call is not in the turn before it: this dialect refuses that, so it becomes text of the user's (dialects.md 4.3). */
  #addStrayResult(part: ToolResultPart, parts: Wire[]): void {
    parts.push({ text: strayHead(cleanText(part.callId)) });
    for (const inner of part.parts) addUserPart(inner, parts, this.dropped);
  }
}

/**
 * Turns as `contents` (dialects.md 3.1, 4.4, 4.8 #3-#5): user first, roles alternating, every call answered in the very next content, no
 * part and no content empty. What this dialect cannot carry is named in `dropped`. `tellsIds`: calls and their results have ids; without, the vendor
 * matches them by name and order. No two neighbouring turns are of one role. Throws GatewayError (invalid_request, with the part's place) for media that this dialect cannot carry.
 */
export function encodeContents(turns: readonly Turn[], dropped: string[], tellsIds: boolean): Content[] {
  const writer = new ContentWriter(dropped, tellsIds ? new ToolIds() : undefined);
  for (const turn of turns) writer[turn.role](turn);
  const unanswered = writer.takeResults();
  if (unanswered.length > 0) writer.contents.push({ role: "user", parts: [...unanswered] });
  if (writer.contents.length === 0) writer.contents.push({ role: "user", parts: [{ text: EMPTY_TEXT }] });
  return writer.contents;
}
