import { until } from "../support/wait.ts";

/** A body being read in the background: what has come so far, and whether it is over. */
export type Reading = {
  readonly text: string;
  readonly ended: boolean;
  /** Resolves when `words` have come. */
  has(words: string): Promise<void>;
  /** Resolves with all of it at the end. */
  end(): Promise<string>;
  /** Goes away without reading on. */
  cancel(): Promise<void>;
};

/** Begins to read. */
export function readAlong(response: Response): Reading {
  const state = { text: "", ended: false };
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  const read = async () => {
    for (;;) {
      const step = await reader?.read();
      if (!step || step.done) return;
      state.text += decoder.decode(step.value, { stream: true });
    }
  };
  void read()
    // What breaks off has ended as well.
    .catch(() => undefined)
    .finally(() => {
      state.ended = true;
    });
  return {
    get text() {
      return state.text;
    },
    get ended() {
      return state.ended;
    },
    has: (words) => until(() => state.text.includes(words), `${JSON.stringify(words)} in ${state.text.slice(0, 500)}`),
    async end() {
      await until(() => state.ended, "the end of the answer");
      return state.text;
    },
    // One whose client has left already has nothing to cancel.
    cancel: async () => reader?.cancel().catch(() => undefined),
  };
}
