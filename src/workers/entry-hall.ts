import type { Caller } from "../accounts/caller.ts";
import type { Doorman } from "../accounts/keys.ts";
import { isFromHere } from "../http/address.ts";
import type { AskedHead } from "../http/asked.ts";
import type { KeyFinder } from "../http/credentials.ts";
import { pathOf } from "../http/request.ts";
import type { Limiter, Permit, RateState } from "../limits/limiter.ts";
import type { Link } from "./link.ts";
import { type Entrance, type Knock, readError } from "./messages.ts";

/** What of a request decides whether it is let in. `peer`: the address of its connection. */
function knockOf(request: AskedHead, peer: string): Knock {
  const { headers, url } = request;
  return {
    path: pathOf(url),
    authorization: headers.get("authorization"),
    apiKey: headers.get("x-api-key"),
    peer,
    forwardedFor: headers.get("x-forwarded-for"),
    isFromHere: isFromHere(request, peer),
  };
}

/**
 * Where requests are let in at a worker: the authority is asked once for each, with everything that it looks at, and its answer is given to whoever
 * asks for keys and places on the request's way.
 */
export class EntryHall implements Limiter {
  readonly #visits = new WeakMap<Caller, Visit>();

  constructor(private readonly link: Link) {}

  /** Asks for one request. Never rejects: a refusal is told where the request meets it. */
  async knock(request: AskedHead, peer: string): Promise<Visit> {
    try {
      const visit = new Visit(await this.link.call("enter", knockOf(request, peer)), this.link);
      this.#visits.set(visit.caller, visit);
      return visit;
    } catch (thrown) {
      return new Visit(thrown, this.link);
    }
  }

  /** The place of a caller that was let in for this request. Throws RateLimited where there was none. */
  take(caller: Caller): Permit {
    const visit = this.#visits.get(caller);
    if (!visit) throw new Error("This caller did not come through the door.");
    return visit.take();
  }
}

/** One request's answer at the door. */
export class Visit implements KeyFinder, Permit {
  readonly doorman: Doorman;
  readonly #entrance: Entrance | undefined;

  /** `answer`: an entrance, or the error with which it was refused. */
  constructor(
    answer: unknown,
    private readonly link: Link,
  ) {
    this.#entrance = isEntrance(answer) ? answer : undefined;
    this.doorman = {
      // The authority has noted it, and said what it is told.
      refuse: () => {
        if (!this.#entrance) throw answer;
      },
    };
  }

  get caller(): Caller {
    if (!this.#entrance) throw new Error("Nobody was let in.");
    return this.#entrance.caller;
  }

  get state(): RateState | undefined {
    return this.#entrance?.rate ?? undefined;
  }

  find(): Caller | undefined {
    return this.#entrance?.caller;
  }

  take(): Permit {
    const refused = this.#entrance?.refused;
    if (refused) throw readError(refused);
    return this;
  }

  /** The authority gives a place back once, however often it is told. */
  release(): void {
    if (this.#entrance) this.link.note("leave", this.#entrance.permit);
  }
}

function isEntrance(answer: unknown): answer is Entrance {
  return !(answer instanceof Error);
}
