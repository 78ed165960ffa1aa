import { type AnyElysia, Elysia } from "elysia";
import type { Keys } from "../accounts/keys.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ImageJobs } from "../jobs/image-jobs.ts";
import type { AddressLimiter } from "../limits/addresses.ts";
import type { KeySpend } from "../limits/key-spend.ts";
import type { Log } from "../observe/log.ts";
import type { BodyLog } from "../relay/body-log.ts";
import type { IdempotencyStore } from "../relay/idempotency-store.ts";
import type { Services } from "../relay/job.ts";
import type { Tokenizer } from "../relay/tokenizer/tokenizer.ts";
import type { McpServer } from "../web/mcp.ts";
import type { WebTools } from "../web/tools.ts";
import { accountRoutes } from "./account.ts";
import { createAddressReader, type PeerSource } from "./address.ts";
import { type AdminDependencies, adminRoutes } from "./admin.ts";
import { chatRoutes } from "./chat.ts";
import { countTokensRoutes } from "./count-tokens.ts";
import { debugTranslateRoutes } from "./debug-translate.ts";
import { boundPublic, createDoorman } from "./doorman.ts";
import { Entrance } from "./entrance.ts";
import { answerError, renderElysiaError } from "./errors.ts";
import type { RequestDependencies } from "./generation.ts";
import { type Cors, createCors, createGuard, type Guard } from "./guard.ts";
import { healthRoutes } from "./health.ts";
import { imageFileRoutes, imageRoutes } from "./images.ts";
import { mcpRoutes } from "./mcp.ts";
import { messagesRoutes } from "./messages.ts";
import { metricsRoutes } from "./metrics.ts";
import { modelsRoutes } from "./models.ts";
import type { Observation } from "./observation.ts";
import { openapiRoutes } from "./openapi.ts";
import { responsesRoutes } from "./responses.ts";
import { rootRoutes } from "./root.ts";
import { webRoutes } from "./web.ts";

/** How the gateway may be reached, of the configuration. */
export type Reach = {
  allowedHosts: readonly string[];
  corsOrigins: readonly string[];
  trustedProxies: Parameters<typeof createAddressReader>[1];
  publicUrl?: string | undefined;
  cdnUrl?: string | undefined;
};

/** What the endpoints serve. */
export type Served = {
  reach: Reach;
  log: Log;
  catalog: Catalog;
  keys: Keys;
  services: Services;
  jobs: ImageJobs;
  web: WebTools;
  mcp: McpServer;
  keySpend: KeySpend;
  kept: IdempotencyStore;
  bodies: BodyLog | undefined;
  tokenizer: Tokenizer;
  addresses: AddressLimiter;
  observation: Observation;
  admin: AdminDependencies;
  ready(): boolean;
};

type Listener = AnyElysia["server"];

/** The endpoints of one gateway. */
export type Gateway = {
  entrance: Entrance;
  /** The routes, made when they are first asked for: neither a start nor a generation has need of them, and making them takes 7 ms. */
  readonly elysia: Elysia;
  /** Who listens; null while nobody does. Routes ask it from where a request comes. */
  server(): Listener;
  /** From now on this one listens. */
  setServer(server: Listener): void;
};

/** The endpoints of a gateway, with a doorman for its keys. */
export function openGateway(served: Served): Gateway {
  const { reach, log, keys, services, kept, bodies, addresses } = served;
  const { allowedHosts, corsOrigins, trustedProxies } = reach;
  let listener: Listener = null;
  let mounted: AnyElysia | undefined;
  const server = () => (mounted ? mounted.server : listener);
  const readAddress = createAddressReader(() => server() as PeerSource, trustedProxies);
  keys.doorman = createDoorman(addresses, readAddress);
  const guard = createGuard({ allowedHosts, corsOrigins });
  const cors = createCors(corsOrigins);
  const generation = { services, keys, kept, bodies, server };
  const routes = () => {
    if (mounted) return mounted;
    mounted = mountRoutes(served, { guard, cors, generation, readAddress });
    mounted.server = listener;
    return mounted;
  };
  return {
    entrance: new Entrance({ guard, cors, generation, answerRequest: (request) => routes().fetch(request), log }),
    get elysia() {
      return routes() as unknown as Elysia;
    },
    server,
    setServer(next) {
      listener = next;
      if (mounted) mounted.server = next;
    },
  };
}

/** What the routes share with the generating endpoints. */
type Shared = {
  guard: Guard;
  cors: Cors;
  generation: RequestDependencies & Pick<Served, "keys" | "kept">;
  readAddress: ReturnType<typeof createAddressReader>;
};

/** Every endpoint, behind the guard: Host and Origin are checked before anything is routed, and every error is rendered in one place. */
function mountRoutes(routes: Served, { guard, cors, generation, readAddress }: Shared): AnyElysia {
  const { reach, log, catalog, keys, services, jobs, keySpend, kept, tokenizer, addresses } = routes;
  const { admin, observation, ready } = routes;
  const { corsOrigins, publicUrl, cdnUrl } = reach;
  const bounds = { addresses, readAddress, keys, limiter: services.limiter };
  const { clock, limiter, running } = services;
  const webTools = {
    tools: routes.web,
    mcp: routes.mcp,
    keys,
    kept,
    limiter,
    running,
    clock,
    server: () => app.server,
  };
  const images = {
    jobs,
    catalog,
    limiter: services.limiter,
    spend: keySpend,
    admission: services.admission,
    clock: services.clock,
    publicUrl,
    cdnUrl,
  };
  const app: AnyElysia = new Elysia({ normalize: false, strictPath: true })
    .onRequest(({ request }) => {
      const refused = guard(request);
      return refused ? cors.mark(request, answerError(refused, request)) : cors.preflight(request);
    })
    .onError(({ code, error, request }) => cors.mark(request, renderElysiaError(code, error, request, log)));
  // Before the routes: a hook counts for those that come after it.
  if (corsOrigins.length > 0) {
    app.mapResponse(({ request, responseValue }) =>
      responseValue instanceof Response ? cors.mark(request, responseValue) : undefined,
    );
  }
  app
    .use(chatRoutes(generation))
    .use(messagesRoutes(generation))
    .use(countTokensRoutes({ ...generation, tokenizer }))
    .use(responsesRoutes(generation))
    .use(debugTranslateRoutes(generation))
    .use(imageRoutes({ ...generation, ...images }))
    .use(mcpRoutes(webTools))
    .use(webRoutes(webTools))
    .use(accountRoutes(admin))
    .use(adminRoutes(admin))
    .use(metricsRoutes({ keys, server: () => app.server as PeerSource, collect: () => observation.collectAll() }))
    .use(new Elysia().onBeforeHandle(boundPublic("models", bounds)).use(modelsRoutes({ catalog })))
    .use(new Elysia().onBeforeHandle(boundPublic("images", bounds)).use(imageFileRoutes(images)))
    .use(
      new Elysia()
        .onBeforeHandle(boundPublic("open", bounds))
        .use(healthRoutes({ ready }))
        .use(rootRoutes())
        .use(openapiRoutes()),
    );
  return app;
}
