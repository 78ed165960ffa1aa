import type { Socket } from "bun";

/** The data of a socket that writes more than the system takes at once. */
type Sending = { unsent: Uint8Array | undefined };

/** Writes bytes, behind those that still wait; what the system does not take waits for {@link drain}. */
export function write<T extends Sending>(socket: Socket<T>, bytes: Uint8Array): void {
  const { data } = socket;
  if (data.unsent) {
    data.unsent = Buffer.concat([data.unsent, bytes]);
    return;
  }
  const written = Math.max(0, socket.write(bytes));
  if (written < bytes.length) data.unsent = bytes.subarray(written);
}

/** The system takes more. */
export function drain<T extends Sending>(socket: Socket<T>): void {
  const { unsent } = socket.data;
  socket.data.unsent = undefined;
  if (unsent) write(socket, unsent);
}
