import { HttpServer } from "../../src/http/server/listen.ts";
import type { TestApp } from "./app.ts";
import { givenExecutable } from "./binary.ts";

/** A gateway that is reached over sockets. */
export type Listening = { port: number; stop(): Promise<void> };

/** Has the gateway of a test listen on a free loopback port, by the server that the product has. An executable listens already. */
export function listen({ app, clock, origin }: TestApp): Listening {
  if (givenExecutable()) return { port: Number(new URL(origin).port), stop: () => Promise.resolve() };
  const { entrance, setServer } = app.gateway;
  const faults: unknown[] = [];
  const server = new HttpServer({
    ...{ hostname: "127.0.0.1", port: 0, sharesPort: false, clock },
    door: {
      answer: (incoming) => entrance.answer(incoming),
      refuse: (text) => entrance.refuse(text),
      broke: (thrown) => void faults.push(thrown),
    },
  });
  setServer(server as object as Parameters<typeof setServer>[0]);
  return {
    port: server.port,
    async stop() {
      await server.stop(true);
      if (faults.length > 0) throw new Error("answers broke", { cause: faults[0] });
    },
  };
}
