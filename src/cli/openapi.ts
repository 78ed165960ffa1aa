import { createApp } from "../app.ts";
import { loadConfig } from "../config/load.ts";
import { openStore } from "../db/open.ts";
import { openapiDocument } from "../http/openapi/openapi.ts";
import { systemClock } from "../lib/clock.ts";
import { silentLog } from "../observe/log.ts";
import { BUILTIN_VENDORS, currentPlace } from "./context.ts";
import { printJson } from "./output.ts";
import { VERSION } from "./version.ts";

/** `sluice openapi`: the document that a server serves at /openapi/json, made without a server and without this machine's settings. */
export async function showOpenapi(): Promise<number> {
  const nothing = {
    flags: {},
    environment: { SLUICE_DATA: "/nonexistent" },
    registryIds: [],
    builtinIds: BUILTIN_VENDORS,
  };
  const config = loadConfig({ ...currentPlace(), ...nothing });
  const store = openStore(":memory:");
  const app = createApp({ config, vendors: [], store, clock: systemClock, log: silentLog, version: VERSION });
  try {
    printJson(await openapiDocument(await app.gateway.routes()));
  } finally {
    await app.stop();
    store.close();
  }
  return 0;
}
