/**
 * Clients as slow as one likes: sockets of the system itself, whose buffers are small and which are read and written a few bytes at a time. A runtime's own
 * sockets read ahead. Linux only.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";

const AF_INET = 2;
const SOCK_STREAM = 1;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const POLLIN = 1;
const POLLERR = 8;
const POLLHUP = 16;
/** What the system keeps for a client that it has not read, bytes. */
const KEPT_BYTES = 4_096;

const { i32, pointer, u64, i64 } = { i32: FFIType.i32, pointer: FFIType.ptr, u64: FFIType.u64, i64: FFIType.i64 };

function openLibrary() {
  const names = ["libc.so.6", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`];
  for (const name of names) {
    try {
      return dlopen(name, {
        socket: { args: [i32, i32, i32], returns: i32 },
        connect: { args: [i32, pointer, i32], returns: i32 },
        setsockopt: { args: [i32, i32, i32, pointer, i32], returns: i32 },
        send: { args: [i32, pointer, u64, i32], returns: i64 },
        recv: { args: [i32, pointer, u64, i32], returns: i64 },
        poll: { args: [pointer, u64, i32], returns: i32 },
        close: { args: [i32], returns: i32 },
      }).symbols;
    } catch {
      // The next name: systems differ in how they call it.
    }
  }
  throw new Error(`none of ${names.join(", ")} can be opened`);
}

const system = openLibrary();

/** One connection to a port of this machine. */
export class SlowSocket {
  readonly #fd: number;
  readonly #polled = new Uint8Array(8);
  #first = "";

  /** Throws when it cannot be made. */
  constructor(port: number) {
    this.#fd = Number(system.socket(AF_INET, SOCK_STREAM, 0));
    const size = new Int32Array([KEPT_BYTES]);
    system.setsockopt(this.#fd, SOL_SOCKET, SO_RCVBUF, ptr(size), 4);
    const address = new Uint8Array(16);
    new DataView(address.buffer).setUint16(0, AF_INET, true);
    new DataView(address.buffer).setUint16(2, port);
    address.set([127, 0, 0, 1], 4);
    if (this.#fd < 0 || system.connect(this.#fd, ptr(address), 16) !== 0) throw new Error("no connection came about");
  }

  /** Bytes that were sent; what the system does not take at once is left out. */
  send(bytes: Uint8Array): number {
    return Number(system.send(this.#fd, ptr(bytes), bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  /** Up to so many bytes that have come, as text; "" when there are none. */
  read(most: number): string {
    const bytes = new Uint8Array(most);
    const count = Number(system.recv(this.#fd, ptr(bytes), most, MSG_DONTWAIT));
    const text = count > 0 ? Buffer.from(bytes.buffer, 0, count).toString("latin1") : "";
    this.#first ||= text;
    return text;
  }

  /** What the first read brought. */
  get first(): string {
    return this.#first;
  }

  /** The other side has closed the connection: nothing is left to be read, or it was reset. */
  get isClosed(): boolean {
    const view = new DataView(this.#polled.buffer);
    view.setInt32(0, this.#fd, true);
    view.setInt16(4, POLLIN, true);
    view.setInt16(6, 0, true);
    system.poll(ptr(this.#polled), 1, 0);
    const seen = view.getInt16(6, true);
    if (seen & (POLLERR | POLLHUP)) return true;
    if (!(seen & POLLIN)) return false;
    const one = new Uint8Array(1);
    const MSG_PEEK = 2;
    return Number(system.recv(this.#fd, ptr(one), 1, MSG_DONTWAIT | MSG_PEEK)) === 0;
  }

  close(): void {
    system.close(this.#fd);
  }
}
