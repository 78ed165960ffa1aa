/** Who wants to know that nothing more has come for it. */
export type Heard = {
  /** Whatever the system had for it has been told. Never throws. */
  onHeard(): void;
};

/**
 * A server that closes its connections behind each answer, and does not say so before, sends the end right behind the answer; sockets tell of it one turn
 * of the event loop later. A request that goes out before is lost, and may not be sent again (reliability 6.2): of a hundred clients at a time every
 * second one was answered with an error.
 */
class Hearing {
  #waiting: Heard[] = [];

  /** Has {@link Heard.onHeard} called once, when the system has been asked anew what has come. */
  add(one: Heard): void {
    this.#waiting.push(one);
    // What is put off in what was put off comes behind the next look at the sockets.
    if (this.#waiting.length === 1) setImmediate(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    setImmediate(() => {
      for (const one of waiting) one.onHeard();
    });
  };
}

/** For all connections of the process. */
export const hearing = new Hearing();
