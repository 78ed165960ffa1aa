import type { Attempt, RequestFacts, RequestObserver, WorkFacts } from "./request-facts.ts";

/** Whoever wants to hear of requests. Whatever is left out is not told. */
export type Listener = Partial<RequestObserver>;

type Told = Exclude<keyof RequestObserver, "traces">;
type Tell = (first?: unknown, second?: unknown) => void;

/**
 * Several listeners as one. One that throws is told of by `onFault` and keeps nobody else from hearing: no figure is worth a request.
 */
export function createObserver(listeners: readonly Listener[], onFault: (thrown: unknown) => void): RequestObserver {
  // No closure for each thing that is told: this runs for every request.
  const tellAll = (name: Told, first?: unknown, second?: unknown): void => {
    for (const listener of listeners) {
      try {
        (listener[name] as Tell | undefined)?.call(listener, first, second);
      } catch (thrown) {
        onFault(thrown);
      }
    }
  };
  return {
    traces: listeners.some((listener) => listener.traces === true),
    began: () => tellAll("began"),
    settling: (requestId: string, attempts: readonly Attempt[]) => tellAll("settling", requestId, attempts),
    ended: (facts: RequestFacts) => tellAll("ended", facts),
    told: (code: string) => tellAll("told", code),
    refused: (facts: RequestFacts) => tellAll("refused", facts),
    worked: (facts: WorkFacts) => tellAll("worked", facts),
  };
}
