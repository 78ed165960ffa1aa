import type { Attempt, RequestFacts, RequestObserver } from "./request-facts.ts";

/** Whoever wants to hear of requests. Whatever is left out is not told. */
export type Listener = Partial<RequestObserver>;

/**
 * Several listeners as one. One that throws is told of by `onFault` and keeps nobody else from hearing: no figure is worth a request.
 */
export function createObserver(listeners: readonly Listener[], onFault: (thrown: unknown) => void): RequestObserver {
  const tellAll = (tell: (listener: Listener) => void): void => {
    for (const listener of listeners) {
      try {
        tell(listener);
      } catch (thrown) {
        onFault(thrown);
      }
    }
  };
  return {
    traces: listeners.some((listener) => listener.traces === true),
    began: () => tellAll((listener) => listener.began?.()),
    settling: (requestId: string, attempts: readonly Attempt[]) =>
      tellAll((listener) => listener.settling?.(requestId, attempts)),
    ended: (facts: RequestFacts) => tellAll((listener) => listener.ended?.(facts)),
    told: (code: string) => tellAll((listener) => listener.told?.(code)),
  };
}
