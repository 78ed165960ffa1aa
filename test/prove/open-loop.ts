/**
 * Load that comes whether or not it is answered: so many requests a second at even distances, each on a connection that is free at the time or a new one, as
 * the clients of an overloaded server are. Raw sockets, and answers are looked at no closer than needed: it must cost far less than what it measures.
 */
import type { Socket } from "bun";
import { quantile } from "./look.ts";

export type OpenLoad = {
  port: number;
  /** Whole HTTP requests, sent in turn. */
  requests: readonly Uint8Array[];
  /** What each of their right answers ends with. */
  endings: readonly string[];
  /** The statuses with which each of them is turned away. */
  shedStatuses: readonly number[];
  perSecond: number;
  seconds: number;
  /** A client waits no longer for the end of its answer, ms. */
  patienceMs: number;
  /** Called when the last request has been sent. */
  onSent?: () => void;
};

export type OpenResult = {
  offered: number;
  /** Answered in full and rightly, in time; and those of them that were while the load went on, each second. */
  served: number;
  servedEachSecond: number[];
  /** Turned away as they should be: in the caller's dialect, with `retry-after: 1`. */
  shed: number;
  /** The client gave up. */
  late: number;
  /** Never asked: the load holds as many connections as it opens, all of them with a request that is not answered. */
  unasked: number;
  /** Connections that broke, and answers that are neither. */
  broken: number;
  odd: number;
  firstOdd: string;
  /** Of those that were served, ms; `p99EachSecond` by the second in which they were asked. */
  p50Ms: number;
  p99Ms: number;
  p99EachSecond: number[];
  shedP99Ms: number;
  connections: number;
  /** The part of the time in which this process was at work: near 1 the load itself is what is measured. */
  busy: number;
  /** The worst delay between when a request was due and when it was sent, ms. */
  behindMs: number;
};

/** More connections than this are not opened; what is due then is not asked. */
const MOST_CONNECTIONS = 12_000;
const TICK_MS = 1;
const SWEEP_MS = 100;

type Asked = { at: number; kind: number; over: boolean };
type State = {
  asked: Asked | undefined;
  head: string;
  left: number;
  tail: string;
  status: number;
  unsent: Uint8Array | undefined;
};

class OpenLoop {
  readonly #free: Socket<State>[] = [];
  readonly #waiting: { asked: Asked; socket: Socket<State> | undefined }[] = [];
  #sweptTo = 0;
  #startedAt = 0;
  #sent = 0;
  #pending = 0;
  #connections = 0;
  #behindMs = 0;
  #latencies: { at: number; ms: number }[] = [];
  #shedMs: number[] = [];
  readonly #servedEachSecond: number[];
  readonly #counts = { served: 0, shed: 0, late: 0, unasked: 0, broken: 0, odd: 0 };
  #firstOdd = "";

  constructor(private readonly load: OpenLoad) {
    this.#servedEachSecond = Array.from({ length: load.seconds }, () => 0);
  }

  async run(): Promise<OpenResult> {
    const { load } = this;
    const total = Math.round(load.perSecond * load.seconds);
    const cpuBefore = process.cpuUsage();
    this.#startedAt = performance.now();
    let sweptAt = this.#startedAt;
    while (this.#sent < total || this.#pending > 0) {
      const now = performance.now();
      const due = Math.min(total, Math.floor(((now - this.#startedAt) / 1_000) * load.perSecond) + 1);
      if (due > this.#sent) {
        const dueAt = this.#startedAt + (this.#sent / load.perSecond) * 1_000;
        this.#behindMs = Math.max(this.#behindMs, now - dueAt);
      }
      if (this.#sent < due) {
        while (this.#sent < due) this.#ask(now);
        if (this.#sent === total) load.onSent?.();
      }
      if (now - sweptAt > SWEEP_MS) {
        sweptAt = now;
        this.#giveUp(now);
      }
      await Bun.sleep(TICK_MS);
    }
    const tookUs = (performance.now() - this.#startedAt) * 1_000;
    const { user, system } = process.cpuUsage(cpuBefore);
    for (const socket of this.#free) socket.terminate();
    return this.#result(total, (user + system) / tookUs);
  }

  #result(offered: number, busy: number): OpenResult {
    const all = this.#latencies.map(({ ms }) => ms);
    const bySecond = this.#servedEachSecond.map((_, second) =>
      quantile(
        this.#latencies.filter(({ at }) => Math.floor(at / 1_000) === second).map(({ ms }) => ms),
        0.99,
      ),
    );
    return {
      offered,
      ...this.#counts,
      servedEachSecond: this.#servedEachSecond,
      firstOdd: this.#firstOdd,
      p50Ms: quantile(all, 0.5),
      p99Ms: quantile(all, 0.99),
      p99EachSecond: bySecond,
      shedP99Ms: quantile(this.#shedMs, 0.99),
      connections: this.#connections,
      busy,
      behindMs: this.#behindMs,
    };
  }

  #ask(now: number): void {
    const kind = this.#sent++ % this.load.requests.length;
    const asked: Asked = { at: now, kind, over: false };
    this.#pending++;
    const socket = this.#free.pop();
    const waiting = { asked, socket };
    this.#waiting.push(waiting);
    if (socket) this.#send(socket, asked);
    else if (this.#connections >= MOST_CONNECTIONS) this.#end(asked, "unasked");
    else void this.#connect(waiting);
  }

  async #connect(waiting: { asked: Asked; socket: Socket<State> | undefined }): Promise<void> {
    this.#connections++;
    const { asked } = waiting;
    try {
      waiting.socket = await Bun.connect<State>({
        hostname: "127.0.0.1",
        port: this.load.port,
        socket: {
          open: (socket) => {
            socket.setNoDelay(true);
            socket.data = { asked: undefined, head: "", left: 0, tail: "", status: 0, unsent: undefined };
            this.#send(socket, asked);
          },
          data: (socket, bytes) => this.#take(socket, bytes),
          drain: (socket) => this.#write(socket, socket.data.unsent),
          close: (socket) => this.#lose(socket),
          error: (socket) => socket.terminate(),
        },
      });
    } catch {
      this.#connections--;
      this.#end(asked, "broken");
    }
  }

  #send(socket: Socket<State>, asked: Asked): void {
    const { data } = socket;
    if (asked.over) return void socket.terminate();
    data.asked = asked;
    data.status = 0;
    data.head = "";
    data.tail = "";
    this.#write(socket, this.load.requests[asked.kind]);
  }

  #write(socket: Socket<State>, bytes: Uint8Array | undefined): void {
    if (!bytes) return;
    const written = Math.max(0, socket.write(bytes));
    socket.data.unsent = written < bytes.length ? bytes.subarray(written) : undefined;
  }

  #take(socket: Socket<State>, bytes: Buffer): void {
    const { data } = socket;
    const { asked } = data;
    if (!asked) return;
    if (data.status === 0) {
      data.head += bytes.toString("latin1");
      const end = data.head.indexOf("\r\n\r\n");
      if (end < 0) return;
      data.status = Number(data.head.slice(9, 12));
      const length = /\r\ncontent-length: *(\d+)/i.exec(data.head)?.[1];
      data.tail = data.head.slice(end + 4);
      data.left = length === undefined ? Number.POSITIVE_INFINITY : Number(length) - data.tail.length;
    } else {
      data.left -= bytes.length;
      data.tail = (data.tail + bytes.toString("latin1", Math.max(0, bytes.length - 64))).slice(-64);
    }
    const whole = data.left === Number.POSITIVE_INFINITY ? data.tail.endsWith("\r\n0\r\n\r\n") : data.left <= 0;
    if (whole) this.#judge(socket, asked);
  }

  #judge(socket: Socket<State>, asked: Asked): void {
    const { data } = socket;
    const { endings, shedStatuses } = this.load;
    const shed = shedStatuses[asked.kind];
    if (data.status === 200 && data.tail.trimEnd().endsWith(endings[asked.kind] ?? "")) this.#end(asked, "served");
    else if (data.status === shed && data.head.includes("\r\nretry-after: 1\r\n") && isOverloaded(data)) {
      this.#end(asked, "shed");
    } else {
      this.#firstOdd ||= `${data.head.slice(0, 600)}…${data.tail}`;
      this.#end(asked, "odd");
    }
    data.asked = undefined;
    if (/\r\nconnection: close/i.test(data.head)) socket.end();
    else this.#free.push(socket);
  }

  #lose(socket: Socket<State>): void {
    this.#connections--;
    const { asked } = socket.data;
    if (asked) this.#end(asked, "broken");
    else {
      const at = this.#free.indexOf(socket);
      if (at >= 0) this.#free.splice(at, 1);
    }
  }

  #end(asked: Asked, how: keyof OpenLoop["countsShape"]): void {
    if (asked.over) return;
    asked.over = true;
    this.#pending--;
    this.#counts[how]++;
    const now = performance.now();
    if (how === "shed") this.#shedMs.push(now - asked.at);
    if (how !== "served") return;
    this.#latencies.push({ at: asked.at - this.#startedAt, ms: now - asked.at });
    const second = Math.floor((now - this.#startedAt) / 1_000);
    if (second < this.#servedEachSecond.length)
      this.#servedEachSecond[second] = (this.#servedEachSecond[second] ?? 0) + 1;
  }

  /** Names of what can become of a request. */
  declare readonly countsShape: { served: 0; shed: 0; late: 0; unasked: 0; broken: 0; odd: 0 };

  #giveUp(now: number): void {
    for (; this.#sweptTo < this.#waiting.length; this.#sweptTo++) {
      const { asked, socket } = this.#waiting[this.#sweptTo]!;
      if (!asked.over && now - asked.at < this.load.patienceMs) return;
      if (!asked.over) {
        this.#end(asked, "late");
        if (socket?.data.asked === asked) socket.data.asked = undefined;
        socket?.terminate();
      }
      this.#waiting[this.#sweptTo] = { asked, socket: undefined };
    }
  }
}

/** Both dialects' words for it. */
const isOverloaded = ({ head }: State): boolean => head.includes('"upstream_overloaded"');

/** Offers the load, waits until the last of it is over, and says what became of it. */
export function offer(load: OpenLoad): Promise<OpenResult> {
  return new OpenLoop(load).run();
}
