import type { Orders } from "../canon/intent.ts";

/** Sampling that is removed while a model reasons (interface 4.8). */
const SAMPLING = ["temperature", "top_p", "top_k"];

/** The fields that a request's orders take out, by the names that clients know them by. */
export const goingFields = ({ dropSampling, remove }: Orders): readonly string[] =>
  dropSampling ? [...SAMPLING, ...remove] : remove;
