import { OWN_HOSTS } from "../http/guard.ts";
import type { Chooser } from "./chooser.ts";
import type { ConfigFile } from "./schema.ts";
import { fileUrl, readHost, readList, readOrigin, readPort, readProxy, readUrl } from "./values.ts";

/** How the gateway is reached. */
export type ServerSettings = {
  host: string;
  port: number;
  /** The port was chosen by a person: it is not replaced by another when taken. */
  portWasGiven: boolean;
  /** The address that clients use, without a slash at the end. */
  publicUrl: string | undefined;
  /** Address of the image files, without a slash at the end. */
  cdnUrl: string | undefined;
  corsOrigins: readonly string[];
  /** IP addresses and ranges of proxies whose `X-Forwarded-For` is believed. */
  trustedProxies: readonly string[];
  /** Host names, without port, that requests may name beside the loopback names. */
  allowedHosts: readonly string[];
};

const DEFAULT_HOST = "127.0.0.1";
const DEFAULT_PORT = 4600;

/** How the gateway is reached: by flags and variables, of which `chooser` keeps the faults, then by the file's `server`, then by defaults. */
export function chooseServer(chooser: Chooser, server: NonNullable<ConfigFile["server"]>): ServerSettings {
  const host = chooser.take("SLUICE_HOST", readHost, "host") ?? readHost.from(server.host ?? DEFAULT_HOST)!;
  const givenPort = chooser.take("SLUICE_PORT", readPort, "port") ?? server.port;
  const publicUrl = chooser.take("SLUICE_PUBLIC_URL", readUrl, "publicUrl") ?? fileUrl(server.public_url);
  const cdnUrl = chooser.take("SLUICE_CDN_URL", readUrl, "cdnUrl") ?? fileUrl(server.cdn_url);
  const corsOrigins =
    chooser.take("SLUICE_CORS_ORIGINS", readList(readOrigin)) ??
    server.cors_origins?.map((origin) => readOrigin.from(origin)!) ??
    [];
  const trustedProxies = chooser.take("SLUICE_TRUSTED_PROXIES", readList(readProxy)) ?? server.trusted_proxies ?? [];
  return {
    host,
    port: givenPort ?? DEFAULT_PORT,
    portWasGiven: givenPort !== undefined,
    publicUrl,
    cdnUrl,
    corsOrigins,
    trustedProxies,
    allowedHosts: allowedHosts(host, [publicUrl, cdnUrl]),
  };
}

const hostOf = (url: string) => new URL(url).hostname.toLowerCase();

/** The host names that requests may have beside those that are always served: of the public addresses, and the address listened on, such as 127.0.0.2. */
function allowedHosts(host: string, urls: readonly (string | undefined)[]): string[] {
  const names = urls.filter((url) => url !== undefined).map(hostOf);
  const listened = host.includes(":") ? `[${host}]` : host.toLowerCase();
  if (!OWN_HOSTS.includes(listened) && !isWildcard(host)) names.push(listened);
  return [...new Set(names)];
}

/** Whether a host to listen on stands for all addresses of this machine. */
export const isWildcard = (host: string) => host === "0.0.0.0" || host === "::";
