import type { Orders } from "../canon/intent.ts";

/** Sampling that is removed while a model reasons (interface 4.8). */
export const SAMPLING: readonly string[] = ["temperature", "top_p", "top_k"];

/** The fields that a request's orders take out, by the names that clients know them by. */
export const goingFields = ({ dropSampling, remove }: Orders): readonly string[] =>
  dropSampling ? [...SAMPLING, ...remove] : remove;

/** Fields that many clients always send, and that say nothing at 0. */
export const SILENT_AT_ZERO: ReadonlySet<string> = new Set(["frequency_penalty", "presence_penalty"]);
