import type { Attempt, RequestFacts, RequestObserver, WorkFacts } from "./request-facts.ts";

/** Whoever wants to hear of requests. It is not told what it has no function for. */
export type Listener = Partial<RequestObserver>;

type Told = Exclude<keyof RequestObserver, "traces">;
type Tell = (first?: unknown, second?: unknown) => void;

/**
 * Several listeners as one. What one of them throws goes to `onFault`, and the others are told all the same: no figure is worth a request.
 */
export function createObserver(listeners: readonly Listener[], onFault: (thrown: unknown) => void): RequestObserver {
  // Written without a closure for each call: this runs for every request.
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
