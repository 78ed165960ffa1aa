/** Who has something to send. */
export type Posting = {
  /** Sends it. Never throws. */
  sendNow(): void;
  /** The turn in which it was sent is over: asks for what follows it, if something does. Never throws. */
  goOn?(): void;
};

/** No more than so many wait: the first of a long turn is not to wait for all of it. */
const MAX_WAITING = 32;

/**
 * What is sent in a turn of the event loop goes out at its end, all together. Each write to another process of this machine wakes it; it takes what came
 * and sleeps again before the next write. Waking it cost a third of all the work for a request of 4 KB. Written in a row they find it awake. And what is
 * for a client that has left in the same turn is not sent at all.
 */
class Outbox {
  #waiting: Posting[] = [];
  /** What was sent in this turn. Asked for before its end, what is there at once would be sent in it as well, and 32 such streams had no turn end. */
  #sent: Posting[] = [];
  #isDue = false;

  /** Has {@link Posting.sendNow} called once, with the end of this turn at the latest. */
  add(posting: Posting): void {
    this.#waiting.push(posting);
    if (this.#waiting.length >= MAX_WAITING) this.send();
    else if (!this.#isDue) {
      this.#isDue = true;
      setImmediate(this.#onDue);
    }
  }

  /** Sends all that waits: for who is about to hold up the turn. */
  send(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const posting of waiting) {
      posting.sendNow();
      if (posting.goOn) this.#sent.push(posting);
    }
  }

  readonly #onDue = (): void => {
    this.#isDue = false;
    this.send();
    const sent = this.#sent;
    this.#sent = [];
    for (const posting of sent) posting.goOn?.();
  };
}

/** For all connections of the process, clients' and vendors'. */
export const outbox = new Outbox();
