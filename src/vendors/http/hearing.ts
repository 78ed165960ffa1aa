/** A connection that is to be told when all has been read that had arrived on it. */
export type Heard = {
  /** Called when everything was told that the system had for it. Never throws. */
  onHeard(): void;
};

/**
 * Waits until the end of a connection would have been told. A server that closes its connections behind each answer, and does not say so before, sends the end
 * right behind the answer; sockets tell of it one turn of the event loop later. A request that goes out before that is lost, and may not be sent again
 * (reliability 6.2): of a hundred clients at a time every second one was answered with an error.
 */
class Hearing {
  #waiting: Heard[] = [];

  /** Has {@link Heard.onHeard} called once, when the system has been asked anew what has come. */
  add(one: Heard): void {
    this.#waiting.push(one);
    // A callback of setImmediate that is set within another one runs after the sockets were read once more.
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
