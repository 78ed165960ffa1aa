import type { Caller } from "../../accounts/caller.ts";
import { OFF_WORDS, type Orders } from "../../canon/intent.ts";
import type { Memories, ReasoningMemory } from "../../canon/memory.ts";
import type { Entry } from "../../catalog/entry.ts";
import type { Quirks } from "../../dialects/dialect.ts";
import { makerOf, needsProof } from "../../dialects/reasoning/proof.ts";
import type { Conversation, SpokenTurn } from "../../dialects/reasoning/replay.ts";
import type { ObjectText } from "../../lib/json-text.ts";
import type { Target } from "../target.ts";
import { type Collected, digestText, ReasoningCollector } from "./collector.ts";
import type { ProofMakers } from "./makers.ts";
import type { ReasoningStore } from "./store.ts";

/** Characters of a digest that a state is found by: 144 bits. */
const KEY_CHARACTERS = 24;

/** Of a request: who asks, the model it is for, and a body that was checked. */
export type Asking = { request: { caller: Caller }; entry: Entry; body: ObjectText };

/** What a request gets of earlier replies, and what will remember its own. */
export type Recall = { memories: Memories | undefined; collector: ReasoningCollector };

const SILENCE: Conversation = { turns: [], anchor: 0n };

/** Whose reasoning it is, and what its vendor wants back of it. Account, vendor and model are part of every digest: nothing is found by another one. */
type Scope = {
  accountId: string;
  vendor: string;
  /** The family of models that takes this reasoning back; "" where every model of the vendor does. */
  model: string;
  /** The vendor wants proofs of reasoning back, not its text. */
  proofs: boolean;
  /** The vendor takes reasoning back as `reasoning_details`, where a reply had any. */
  details: boolean;
  /** The vendor wants back what it said of each text, and the client has no place for it. */
  marks: boolean;
  /** The family of the model that is asked. */
  maker: string;
  /** The client sends no reasoning back, so that turns without calls are remembered too, by their text. */
  forgets: boolean;
};

function keyOf(scope: Scope, kind: "call" | "text", anchor: bigint, value: string): string {
  const said = anchor === 0n ? "" : anchor.toString(36);
  const parts = JSON.stringify([scope.accountId, scope.vendor, scope.model, kind, said, value]);
  return Bun.CryptoHasher.hash("sha256", parts, "base64url").slice(0, KEY_CHARACTERS);
}

/**
 * Call ids of vendors that prove their reasoning are unique. Those of others may be counted anew in each conversation
 * (`functions.get_weather:0`), and the same words may be said in many: there the user's words before it belong to the key.
 */
const keysOf = (scope: Scope, callIds: readonly string[], text: string | undefined, anchor: bigint): string[] => {
  if (callIds.length > 0) return callIds.map((id) => keyOf(scope, "call", scope.proofs ? 0n : anchor, id));
  return scope.forgets && text !== undefined ? [keyOf(scope, "text", anchor, text)] : [];
};

/** Whether a turn already has what its vendor wants back of it. */
function isComplete({ carries, hasDetails }: SpokenTurn, { proofs, details, marks }: Scope): boolean {
  if (details) return hasDetails === true;
  if (marks) return false;
  return proofs ? carries === "proof" : carries !== "nothing";
}

/**
 * What the vendor takes back of a reply. Details are of one model: another of the same vendor gets the text alone, unless it is there already or
 * the model refuses it without a proof.
 */
function returnable(memory: ReasoningMemory, { carries }: SpokenTurn, scope: Scope): ReasoningMemory | undefined {
  if (!scope.details) return memory;
  const details = memory.find((block) => block.kind === "details");
  if (details?.maker === scope.maker) return memory;
  if (carries !== "nothing" || needsProof(scope.maker)) return undefined;
  return memory.some((block) => block.kind === "reasoning" && block.text !== "")
    ? memory.filter((block) => block !== details)
    : undefined;
}

/**
 * Whether the model will reason, as far as that decides what it takes back: a vendor of proofs refuses them while it does not, and then
 * silence about reasoning may mean that it does not either.
 */
function willReason({ reasoning, isReasoningActive }: Orders, { proofs }: Scope): boolean {
  if (reasoning.kind === "off") return reasoning.value !== undefined && !OFF_WORDS.has(reasoning.value);
  const isSilent = reasoning.kind === "nothing" || reasoning.kind === "keep";
  return !proofs || !isSilent || isReasoningActive;
}

/** Where reasoning is switched off none is put back; a call's own proof is wanted all the same (dialects.md 3.3). */
function withoutReasoning(memory: ReasoningMemory): ReasoningMemory | undefined {
  const kept = memory.filter((block) => block.kind === "text" || block.kind === "tool-call");
  return kept.some((block) => block.signature !== undefined) ? kept : undefined;
}

/** Where reasoning is kept: the store, or a way to the process that has it. */
export type ReasoningShelf = Pick<ReasoningStore, "put" | "holdsAny" | "find"> &
  Partial<Pick<ReasoningStore, "knowsNothingOf">>;

/** Carries reasoning from turn to turn for clients that cannot or do not (dialects.md 4.8 #6-#8). */
export class ReasoningState {
  /** `shelf`: where the reasoning is kept. `makers`: who is known to have made which proof. */
  constructor(
    readonly shelf: ReasoningShelf,
    readonly makers: ProofMakers,
  ) {}

  /** What tells of a proof that another model than this route's is known to have made it; undefined where none can be told. */
  foreignTo({ upstream, route }: Target): Orders["isForeignProof"] {
    return upstream.bindsReasoning ? this.makers.foreignTo(makerOf(route.model)) : undefined;
  }

  /** What tells of a proof that this route's model is known to have made it; undefined where none can be told. */
  ownTo({ upstream, route }: Target): Orders["isOwnProof"] {
    return upstream.bindsReasoning ? this.makers.madeBy(makerOf(route.model)) : undefined;
  }

  /**
   * What is remembered of the conversation's earlier turns for this route, and a collector for the reply to come. Undefined where the
   * vendor wants nothing back. `quirks` are the vendor's, with what it taught by refusing.
   */
  recall(
    asking: Asking,
    { vendor, upstream, client, route }: Target,
    orders: Orders,
    { reasoningReplay }: Quirks,
  ): Recall | undefined {
    const proofs = upstream.provesReasoning === true;
    if (proofs ? !mayReason(asking.entry) : reasoningReplay === undefined) return undefined;
    const marks = upstream.marksTexts === true && client.replay.bareTexts === true;
    const forgets = client.replay.forgets || marks;
    const maker = makerOf(route.model);
    const scope: Scope = {
      ...{ accountId: asking.request.caller.accountId, vendor: vendor.id, model: proofs ? maker : "" },
      ...{ proofs, details: !proofs && reasoningReplay === "reasoning", maker, marks, forgets },
    };
    const texts = forgets || !proofs;
    // Where nothing is kept and no text belongs to a key, nobody asks what was said: agents say very much.
    const isUnread = !texts && this.shelf.knowsNothingOf?.(scope.accountId) === true;
    const body = asking.body.value;
    const { turns, anchor } = isUnread ? SILENCE : client.replay.read(body, texts);
    const keep = ({ memory, callIds, text }: Collected) => {
      const keys = keysOf(scope, callIds, text?.value, anchor);
      return keys.length > 0 ? this.shelf.put(scope.accountId, keys, memory) : undefined;
    };
    const note = upstream.bindsReasoning && ((proof: string) => this.makers.note(proof, maker));
    const collector = new ReasoningCollector({ proofs, texts: forgets, maker }, keep, note || undefined);
    const mayRemember = turns.length > 0 && this.shelf.holdsAny(scope.accountId);
    return { memories: mayRemember ? this.#find(scope, turns, orders) : undefined, collector };
  }

  #find(scope: Scope, turns: readonly SpokenTurn[], orders: Orders): Memories | undefined {
    const isOff = !willReason(orders, scope);
    if (isOff && !scope.proofs) return undefined;
    const wanted = turns.map((turn) => {
      if (isComplete(turn, scope)) return [];
      const isNamed = turn.callIds.length > 0 || !scope.forgets;
      return keysOf(scope, turn.callIds, isNamed ? undefined : digestText(turn.text), turn.anchor);
    });
    const found = this.shelf.find(scope.accountId, wanted.flat());
    if (found.size === 0) return undefined;
    const memories = new Map<number, ReasoningMemory>();
    // A reply whose calls stand in two turns is put back once.
    const used = new Set<ReasoningMemory>();
    for (const [number, keys] of wanted.entries()) {
      const memory = keys.map((key) => found.get(key)).find((one) => one !== undefined);
      if (!memory || used.has(memory)) continue;
      used.add(memory);
      const turn = turns[number] as SpokenTurn;
      // What the client itself sent back of it stays in any case.
      const kept = isOff && turn.carries !== "proof" ? withoutReasoning(memory) : returnable(memory, turn, scope);
      if (kept) memories.set(number, kept);
    }
    return memories.size > 0 ? memories : undefined;
  }
}

/** A model that is known not to reason has nothing to be remembered. */
function mayReason({ capabilities, uncharted }: Entry): boolean {
  return capabilities.reasoning || uncharted === true;
}
