import { connect } from "node:net";

/** Bytes a test writes that no HTTP client would, and the status and body that came back. Status 0: closed without an answer. */
export type RawAnswer = { status: number; head: string; body: string };

/** Sends `text` as it stands (latin1) to a loopback port and resolves once the server has answered and closed. Ask for `Connection: close`. */
export function sendRaw(port: number, text: string): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text, "latin1"));
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      answer += chunk;
    });
    socket.on("error", reject);
    socket.on("close", () => {
      const split = answer.indexOf("\r\n\r\n");
      resolve({
        status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(answer)?.[1] ?? 0),
        head: answer.slice(0, split),
        body: answer.slice(split + 4),
      });
    });
  });
}
