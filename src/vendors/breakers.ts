import type { Clock } from "../lib/clock.ts";
import { keepNewest } from "../lib/keep-newest.ts";

/** Failures in a row that open a breaker (reliability 6.2). */
export const OPEN_AFTER = 5;
/** More than this part of at least {@link RATE_CALLS} calls within {@link RATE_WINDOW_MS} opens it too. */
const OPEN_RATE = 0.5;
const RATE_CALLS = 20;
const RATE_WINDOW_MS = 30_000;
/** How long it stays open, ms, multiplied by how often it has opened; at most {@link MAX_OPEN_MS}, plus or minus the fraction {@link JITTER} of that. */
export const OPEN_MS = 30_000;
const MAX_OPEN_MS = 300_000;
const JITTER = 0.2;
/** After this long, ms, a trial call that has not come back no longer keeps others from trying. */
const PROBE_MS = 30_000;
/** After one that failed before its time, the next one waits so long, ms: a vendor that fails fast would else be asked by everybody in turn. */
const PROBE_GAP_MS = 1_000;
/** While nothing else is left, every so many-th call goes through beside the one that is under way (reliability 6.2: never quite shut). */
const PASS_EVERY = 10;
/** Most routes that are remembered at the same time because they have failed; with one more the oldest is forgotten. */
const MAX_CIRCUITS = 10_000;

type Circuit = {
  /** Failures in a row. */
  failures: number;
  /** Calls and failures since `windowAt`. */
  calls: number;
  failed: number;
  windowAt: number;
  /** Monotonic ms; 0: closed. */
  openUntil: number;
  ejections: number;
  /** When the one call went out that is let through while it is open. */
  probeAt: number | undefined;
  /** Before this no other one goes out, unless the route is due. */
  nextProbeAt: number;
  /** Calls turned away or let through while nothing else was left. */
  lastResorts: number;
};

/** How a route that has failed lately stands. */
export type CircuitState = { id: string; open: boolean; failures: number };

/**
 * A breaker for every route that has failed lately, by name (reliability 6.2): opened by failures in a row or by their part, it keeps calls
 * away for a while, then lets one through to see. A route that does well has none, and costs nothing.
 */
export class Breakers {
  readonly #circuits = new Map<string, Circuit>();

  constructor(
    private readonly clock: Clock,
    /** 0 up to 1, for the jitter. */
    private readonly random: () => number = Math.random,
  ) {}

  /** Whether no route has failed lately, so that nothing needs to be looked up or noted. */
  get idle(): boolean {
    return this.#circuits.size === 0;
  }

  /** Whether a call may go to this route: it is closed, or due for the one call that finds out. Changes nothing. */
  allows(id: string): boolean {
    const circuit = this.#circuits.get(id);
    if (!circuit || circuit.openUntil === 0) return true;
    const now = this.clock.monotonic();
    return now >= circuit.openUntil && !isProbed(circuit, now);
  }

  /** When the route may be tried again, monotonic ms; 0, or a time that is past, where it may be now. */
  opensAt(id: string): number {
    return this.#circuits.get(id)?.openUntil ?? 0;
  }

  /**
   * A call goes out. False: the route is open, this is the last one left, and the call is not among the few that go through all the
   * same: one at a time and, once one has failed, one a second; and each tenth.
   */
  enter(id: string): boolean {
    const circuit = this.#circuits.get(id);
    if (!circuit || circuit.openUntil === 0) return true;
    const now = this.clock.monotonic();
    if (!isProbed(circuit, now) && (now >= circuit.nextProbeAt || now >= circuit.openUntil)) {
      circuit.probeAt = now;
      return true;
    }
    circuit.lastResorts++;
    return circuit.lastResorts % PASS_EVERY === 0;
  }

  /**
   * A call's answer has begun: an open breaker is closed, for whoever was sent to find out may be read for minutes. The row of failures goes on until
   * the answer has ended, one way or the other ({@link endedWell}, {@link failed}).
   */
  began(id: string): void {
    const circuit = this.#circuits.get(id);
    if (!circuit || circuit.openUntil === 0) return;
    circuit.openUntil = 0;
    circuit.probeAt = undefined;
    // The answer has only begun: one more failure, such as its breaking off, opens the breaker again.
    circuit.failures = OPEN_AFTER - 1;
  }

  /** An answer that had begun has ended well. What was opened since is not its doing. */
  endedWell(id: string): void {
    const circuit = this.#circuits.get(id);
    if (!circuit || circuit.openUntil > 0) return;
    this.#count(circuit, false);
    circuit.failures = 0;
    if (circuit.failed === 0) this.#circuits.delete(id);
  }

  /** A call was answered. */
  succeeded(id: string): void {
    const circuit = this.#circuits.get(id);
    if (!circuit) return;
    this.#count(circuit, false);
    circuit.failures = 0;
    circuit.openUntil = 0;
    circuit.probeAt = undefined;
    if (circuit.failed === 0) this.#circuits.delete(id);
  }

  /** A call failed by the vendor's doing. True when this is what opens the breaker. */
  failed(id: string): boolean {
    const circuit = this.#circuits.get(id) ?? this.#create(id);
    this.#count(circuit, true);
    circuit.failures++;
    const wasProbe = circuit.probeAt !== undefined;
    circuit.probeAt = undefined;
    if (circuit.openUntil > 0) {
      const now = this.clock.monotonic();
      if (wasProbe) circuit.nextProbeAt = now + PROBE_GAP_MS;
      // Only the call that was due says that the rest was too short; one that went out since nothing else was left was early.
      if (!wasProbe || now < circuit.openUntil) return false;
    } else {
      const rated = circuit.calls >= RATE_CALLS && circuit.failed > circuit.calls * OPEN_RATE;
      if (circuit.failures < OPEN_AFTER && !rated) return false;
    }
    this.#open(circuit);
    return true;
  }

  /** A call ended without telling anything of the route, such as one whose client left. */
  left(id: string): void {
    const circuit = this.#circuits.get(id);
    if (circuit) circuit.probeAt = undefined;
  }

  /** All that are remembered, for the operator. */
  states(): CircuitState[] {
    return [...this.#circuits].map(([id, { openUntil, failures }]) => ({ id, open: openUntil > 0, failures }));
  }

  /** Forgets all routes: what was wrong with them may have been mended. */
  clear(): void {
    this.#circuits.clear();
  }

  #create(id: string): Circuit {
    const windowAt = this.clock.monotonic();
    const counts = { failures: 0, calls: 0, failed: 0, ejections: 0, lastResorts: 0 };
    const circuit: Circuit = { ...counts, windowAt, openUntil: 0, probeAt: undefined, nextProbeAt: 0 };
    return keepNewest(this.#circuits, id, circuit, MAX_CIRCUITS);
  }

  #count(circuit: Circuit, failed: boolean): void {
    const now = this.clock.monotonic();
    if (now - circuit.windowAt > RATE_WINDOW_MS) {
      circuit.windowAt = now;
      circuit.calls = 0;
      circuit.failed = 0;
    }
    circuit.calls++;
    if (failed) circuit.failed++;
  }

  #open(circuit: Circuit): void {
    circuit.ejections++;
    const length = Math.min(OPEN_MS * circuit.ejections, MAX_OPEN_MS);
    circuit.openUntil = this.clock.monotonic() + length * (1 - JITTER + 2 * JITTER * this.random());
    circuit.failures = 0;
    circuit.calls = 0;
    circuit.failed = 0;
  }
}

const isProbed = ({ probeAt }: Circuit, now: number) => probeAt !== undefined && now - probeAt < PROBE_MS;
