import type { GatewayError } from "../canon/errors.ts";
import { tellsOfBinding } from "../dialects/messages/block-binding.ts";
import type { ObjectText } from "../lib/json-text.ts";
import { wholeText } from "../lib/text-pieces.ts";
import type { Job } from "./job.ts";
import { keepDialect, turnDialect } from "./lessons/newer-dialect.ts";
import { keepPlain, tellPlainly } from "./lessons/plain-servers.ts";
import { learnRefused } from "./lessons/refused-extras.ts";
import { showMedia } from "./media/remote-media.ts";
import { mendHistory } from "./mend-history.ts";
import { prepare } from "./prepare.ts";
import type { Target } from "./target.ts";

/**
 * What a vendor says of reasoning whose proof is not its own, not of this model, or of another account: Anthropic, OpenAI (whose proofs are good for
 * one organisation), Google; and what servers say that take no proof at all, but the text alone (vLLM, llama.cpp, SGLang), or nothing of it (LMDeploy).
 */
const PROOF_REFUSED =
  /`?(?:signature|data)`? in `?(?:redacted_)?thinking|thinking.*(?:signature|cannot be modified)|redacted_thinking history is not supported|input item type: 'reasoning'|encrypted content\b.*\b(?:could not be|is not supported)\b|item\['content'\] is (?:not an array|empty)|(?:corrupted|invalid) thought signature|thought signature is not valid/i;

/** Whether the vendor refused a proof of earlier reasoning. Of one that nobody here has seen before, the vendor alone can tell whose it is. */
const isRefusedProof = ({ code, message }: GatewayError, { upstream }: Target): boolean =>
  upstream.provesReasoning === true && code === "invalid_request" && PROOF_REFUSED.test(message);

/** Whether the vendor offers to leave out by itself the proofs that do not belong where they stand. */
const canMatch = ({ message }: GatewayError, { vendor, upstream }: Target): boolean =>
  upstream.bindsReasoning === true && vendor.quirks.versionInBody === undefined && tellsOfBinding(message);

/**
 * Has the proofs of earlier reasoning left out of the request (dialects.md 2.9): first those alone that do not match, where the vendor can tell them apart,
 * and all of them where that is refused too. False where the refusal is of something else, or none are sent any more.
 */
function learnProofs(error: GatewayError, job: Job, target: Target): boolean {
  const isRefused = isRefusedProof(error, target) || (job.proofs === "matching" && error.code === "invalid_request");
  if (job.proofs === "none" || !isRefused) return false;
  job.proofs = job.proofs === undefined && canMatch(error, target) ? "matching" : "none";
  return true;
}

/**
 * Learns from a vendor's refusal how the request has to be written so that the vendor takes it, and notes that in `job`. True: it is to be sent along the
 * same way once more, which has cost nothing yet. What may be learnt, in this order: to leave out proofs of reasoning, to speak the vendor's other dialect,
 * to leave out what it does not know of the dialect, to use plainer terms of it. `body`: what was sent, where that is not the job's own.
 */
export function learnFromRefusal(error: GatewayError, job: Job, target: Target, body: ObjectText = job.body): boolean {
  const told = () => {
    const asked = body === job.body ? job : { ...job, body };
    return wholeText(prepare(showMedia(mendHistory(asked, target), target), target).sending.body);
  };
  return (
    learnProofs(error, job, target) ||
    turnDialect(error, target, job) ||
    learnRefused(error, target, job) ||
    tellPlainly(error, target, job, told)
  );
}

/** The request was answered: what had to be learnt for that, the next ones begin with. */
export function keepLessons(job: Job, target: Target): void {
  keepPlain(job, target);
  keepDialect(job, target);
}
