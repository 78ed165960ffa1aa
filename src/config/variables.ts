import type { Environment } from "../lib/environment.ts";
import { nearest } from "./nearest.ts";

/** The `SLUICE_*` variables that are known. `SLUICE_API_KEY` is read by clients, not by this program. */
const KNOWN_VARIABLES = [
  "SLUICE_HOST",
  "SLUICE_PORT",
  "SLUICE_DATA",
  "SLUICE_CONFIG",
  "SLUICE_PUBLIC_URL",
  "SLUICE_CDN_URL",
  "SLUICE_CORS_ORIGINS",
  "SLUICE_TRUSTED_PROXIES",
  "SLUICE_BLOCKING_SECONDS",
  "SLUICE_LOCAL_DISCOVERY",
  "SLUICE_LOG_LEVEL",
  "SLUICE_USE_ENV_PROXY",
  "SLUICE_HTTP_CLIENT",
  "SLUICE_HTTP_SERVER",
  "SLUICE_API_KEY",
];

/** Whether a variable was set by a container platform, which announces a service called `sluice` so (`SLUICE_PORT=tcp://10.0.0.7:4600`): it is no setting. */
const isServiceLink = (name: string, value: string) =>
  /^SLUICE_(SERVICE|PORT)_/.test(name) || (name === "SLUICE_PORT" && /^(tcp|udp):\/\//.test(value));

/** The non-empty `SLUICE_*` variables, trimmed, and a warning for each that this program does not know. */
export function ownVariables(environment: Environment): {
  own: Record<string, string>;
  warnings: string[];
} {
  const own: Record<string, string> = {};
  const warnings: string[] = [];
  for (const [name, written] of Object.entries(environment)) {
    const value = written?.trim() ?? "";
    if (!name.startsWith("SLUICE_") || value === "" || isServiceLink(name, value)) continue;
    own[name] = value;
    if (KNOWN_VARIABLES.includes(name)) continue;
    const meant = nearest(name, KNOWN_VARIABLES);
    warnings.push(`${name} is not a variable of Sluice${meant ? `; did you mean ${meant}?` : "."}`);
  }
  return { own, warnings };
}
