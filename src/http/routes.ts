import { type AnyElysia, Elysia } from "elysia";
import { accountRoutes } from "./account/account.ts";
import { adminRoutes } from "./admin/admin.ts";
import type { createAddressReader } from "./caller/address.ts";
import { boundPublic } from "./caller/doorman.ts";
import type { Cors } from "./cors.ts";
import { answerError, renderElysiaError } from "./errors.ts";
import { countTokensRoutes } from "./generation/count-tokens.ts";
import { debugTranslateRoutes } from "./generation/debug-translate.ts";
import type { RequestDependencies } from "./generation/generation.ts";
import { generationRoutes } from "./generation/routes.ts";
import type { Guard } from "./guard.ts";
import { healthRoutes } from "./health.ts";
import { imageFileRoutes, imageRoutes } from "./images/images.ts";
import { metricsRoutes } from "./metrics/metrics.ts";
import { modelsRoutes } from "./models.ts";
import { openapiRoutes } from "./openapi/openapi.ts";
import { rootRoutes } from "./root.ts";
import type { Served } from "./served.ts";
import { mcpRoutes } from "./web/mcp.ts";
import { webRoutes } from "./web/web.ts";

/** What the routes share with the generating endpoints. */
export type Shared = {
  guard: Guard;
  cors: Cors;
  generation: RequestDependencies & Pick<Served, "keys" | "kept">;
  readAddress: ReturnType<typeof createAddressReader>;
};

/** Every endpoint, behind the guard: Host and Origin are checked before anything is routed, and every error is rendered in one place. */
export function mountRoutes(routes: Served, { guard, cors, generation, readAddress }: Shared): AnyElysia {
  const { reach, log, catalog, keys, services, jobs, keySpend, kept, tokenizer, addresses } = routes;
  const { admin, observation, ready } = routes;
  const { corsOrigins, publicUrl, cdnUrl } = reach;
  const { clock, limiter, running, observer, admission } = services;
  const bounds = { addresses, readAddress, keys, limiter };
  const webTools = {
    tools: routes.web,
    mcp: routes.mcp,
    keys,
    kept,
    limiter,
    running,
    clock,
    observer,
    log,
    room: admission?.bodies,
    server: () => app.server,
  };
  const images = {
    jobs,
    catalog,
    limiter,
    spend: keySpend,
    admission,
    clock,
    log,
    observer,
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
    .use(generationRoutes("chat", generation))
    .use(generationRoutes("messages", generation))
    .use(countTokensRoutes("messages", { ...generation, tokenizer }))
    .use(generationRoutes("responses", generation))
    .use(countTokensRoutes("responses", { ...generation, tokenizer }))
    .use(debugTranslateRoutes(generation))
    .use(imageRoutes({ ...generation, ...images }))
    .use(mcpRoutes(webTools))
    .use(webRoutes(webTools))
    .use(accountRoutes({ ...admin, keySpend }))
    .use(adminRoutes(admin))
    .use(metricsRoutes({ keys, server: () => app.server, collect: () => observation.collectAll() }))
    .use(new Elysia().onBeforeHandle(boundPublic("models", bounds)).use(modelsRoutes({ catalog })))
    .use(new Elysia().onBeforeHandle(boundPublic("images", bounds)).use(imageFileRoutes(images)))
    .use(
      new Elysia()
        .onBeforeHandle(boundPublic("open", bounds))
        .use(healthRoutes({ ready }))
        .use(rootRoutes())
        .use(openapiRoutes(publicUrl)),
    );
  return app;
}
