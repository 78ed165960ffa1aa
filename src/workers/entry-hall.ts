import type { Caller } from "../accounts/caller.ts";
import type { Doorman } from "../accounts/keys.ts";
import type { AskedHead } from "../http/asked.ts";
import { isFromHere } from "../http/caller/address.ts";
import type { KeyFinder } from "../http/caller/credentials.ts";
import { pathOf } from "../http/request.ts";
import type { Limiter, Permit, RateState } from "../limits/limiter.ts";
import type { Link } from "./link.ts";
import { type Entrance, type Knock, readError } from "./messages.ts";

/** The parts of a request by which the authority decides whether it is let in. `peer`: the address of its connection. */
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
 * Lets requests in at a worker. The authority is asked once for each request, about its key and its caller's limits together; the answer then stands in
 * for the key finder and the limiter that the rest of the request's way expects.
 */
export class EntryHall implements Limiter {
  readonly #visits = new WeakMap<Caller, Visit>();

  constructor(private readonly link: Link) {}

  /** Asks the authority about one request. Never rejects: a refusal is thrown where the request's way would meet it, by {@link Visit}. */
  async knock(request: AskedHead, peer: string): Promise<Visit> {
    try {
      const visit = new Visit(await this.link.call("enter", knockOf(request, peer)), this.link);
      this.#visits.set(visit.caller, visit);
      return visit;
    } catch (thrown) {
      return new Visit(thrown, this.link);
    }
  }

  /** The place that the authority took for a caller's request. Throws RateLimited where it refused one for its caller's limits. */
  take(caller: Caller): Permit {
    const visit = this.#visits.get(caller);
    if (!visit) throw new Error("This caller did not come through the door.");
    return visit.take();
  }
}

/** The authority's answer about one request. */
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
      // The authority has counted the failed attempt already, and its error is what the client is told.
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

  /** Gives the place back. The authority does that once only, however often it is told. */
  release(): void {
    if (this.#entrance) this.link.note("leave", this.#entrance.permit);
  }
}

function isEntrance(answer: unknown): answer is Entrance {
  return !(answer instanceof Error);
}
