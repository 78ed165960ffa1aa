import type { AnyElysia, Elysia } from "elysia";
import type { RequestServer } from "./asked.ts";
import { KnownParts } from "./body/known-parts.ts";
import { createAddressReader } from "./caller/address.ts";
import { countPublic, createDoorman } from "./caller/doorman.ts";
import { createCors } from "./cors.ts";
import { Entrance } from "./entrance.ts";
import { answerGeneration } from "./generation/generation.ts";
import { createGuard } from "./guard.ts";
import { answerPoll } from "./images/poll.ts";
import type { Served } from "./served.ts";

/** The endpoints of one gateway. */
export type Gateway = {
  entrance: Entrance;
  /**
   * The routes. They are loaded and made when they are first asked for: neither a start nor a generation has need of them, and it takes some 8 ms and
   * 4 MB.
   */
  routes(): Promise<Elysia>;
  /** Answers by the routes. */
  answerRequest(request: Request): Response | Promise<Response>;
  /** Who listens; null while nobody does. Routes ask it from where a request comes. */
  server(): RequestServer;
  /** From now on this one listens. */
  setServer(server: RequestServer): void;
};

/** The endpoints of a gateway, with a doorman for its keys. */
export function openGateway(served: Served): Gateway {
  const { reach, log, keys, services, jobs, kept, bodies, addresses } = served;
  const { allowedHosts, corsOrigins, trustedProxies } = reach;
  let listener: RequestServer = null;
  let mounted: AnyElysia | undefined;
  let mounting: Promise<AnyElysia> | undefined;
  const server = (): RequestServer => (mounted ? mounted.server : listener);
  const readAddress = createAddressReader(server, trustedProxies);
  keys.doorman = createDoorman(addresses, readAddress);
  const guard = createGuard({ allowedHosts, corsOrigins });
  const cors = createCors(corsOrigins);
  const polls = { jobs, keys, limiter: services.limiter, log, publicUrl: reach.publicUrl, cdnUrl: reach.cdnUrl };
  const generation = { services, keys, kept, bodies, server, knownParts: new KnownParts(services.clock) };
  const mount = async () => {
    const { mountRoutes } = await import("./routes.ts");
    mounted = mountRoutes(served, { guard, cors, generation, readAddress });
    mounted.server = listener as AnyElysia["server"];
    return mounted;
  };
  const routes = () => {
    mounting ??= mount();
    return mounting;
  };
  const answerRequest = (request: Request) =>
    mounted ? mounted.fetch(request) : routes().then((made) => made.fetch(request));
  return {
    entrance: new Entrance({
      ...{ guard, cors, answerRequest, log },
      generate: (dialect, incoming) => answerGeneration(dialect, incoming, generation),
      poll: (incoming, jobId, requestId) => answerPoll(incoming, jobId, requestId, polls),
      health: {
        state: served,
        countPublic: (incoming) =>
          countPublic(incoming, "open", { addresses, readAddress, keys, limiter: services.limiter }),
      },
    }),
    routes,
    answerRequest,
    server,
    setServer(next) {
      listener = next;
      if (mounted) mounted.server = next as AnyElysia["server"];
    },
  };
}
