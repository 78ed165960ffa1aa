import type { Clock } from "../../lib/clock.ts";
import { deadline } from "../../lib/signals.ts";
import { FetchFault } from "./fault.ts";

/** A signal that ends with `outer`, and by itself after `ms` with a FetchFault of this sentence; see {@link deadline}. */
export const limit = (clock: Clock, ms: number, sentence: string, outer: AbortSignal | undefined) =>
  deadline(clock, ms, () => new FetchFault("timeout", sentence), outer);
