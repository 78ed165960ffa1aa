import type { KeyRow } from "../accounts/key-row.ts";
import type { KeyLimits } from "../accounts/key-wish.ts";
import { parseUsd, toUsd } from "../lib/usd.ts";
import { isAmount, MAX_USD } from "../wire/bounds.ts";
import { SCOPES, type Scope } from "../wire/scopes.ts";
import type { KeyLimitOptions } from "./options.ts";
import { WrongUsage } from "./output.ts";
import { readSpan } from "./since.ts";
import { formatCount, formatTime } from "./table.ts";

/** What takes a limit away again. */
const NONE = "none";

/** USD as it is written in decimal, as nano-USD, exact. Throws WrongUsage for what is no amount of the ledger's, above 0, with at most nine decimals. */
export function readUsd(option: string, text: string): bigint {
  const nano = parseUsd(text);
  if (nano !== undefined && isAmount(nano)) return nano;
  throw new WrongUsage(
    `${option}: expected an amount in USD above 0 and at most ${formatCount(MAX_USD)}, with nine decimals at the most, such as 5 or 0.25, found "${text}"`,
  );
}

/** A whole number above 0. Throws WrongUsage for anything else. */
export function readCount(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new WrongUsage(`${option}: expected a whole number above 0, found "${text}"`);
}

/** The end of a span from `now` as Unix ms: `12h`, `30d`, `4w`, or a date (UTC) or date and time. Throws WrongUsage for the past and anything else. */
export function readExpiry(text: string, now: number): number {
  const at = readSpan(text, now, 1);
  if (at !== undefined && at > now) return at;
  throw new WrongUsage(
    `--expires: expected a span such as 12h or 30d, or a date to come such as 2027-01-31, found "${text}"`,
  );
}

const readWords = (text: string) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");

/** Names of scopes, separated by commas. Throws WrongUsage with those there are. */
export function readScopes<T extends Scope>(option: string, text: string, known: readonly T[]): T[] {
  const words = readWords(text);
  const scopes = words.flatMap((word) => known.find((scope) => scope === word) ?? []);
  if (scopes.length > 0 && scopes.length === words.length) return scopes;
  throw new WrongUsage(`${option}: expected one or more of ${known.join(", ")}, separated by commas, found "${text}"`);
}

/** What the options of a command limit of a key; `none` takes a limit away. What is not given is absent. Throws WrongUsage. */
export function readLimits(options: KeyLimitOptions, now: number): Partial<KeyLimits> {
  const take = <T>(text: string | undefined, read: (text: string) => T): T | null | undefined => {
    if (text === undefined) return undefined;
    return text === NONE ? null : read(text);
  };
  const limits: { [Name in keyof KeyLimits]: KeyLimits[Name] | undefined } = {
    expiresAt: take(options.expires, (text) => readExpiry(text, now)),
    models: take(options.models, readWords),
    endpoints: take(options.endpoints, (text) => readScopes("--endpoints", text, SCOPES)),
    capDayNano: take(options.capUsdDay, (text) => readUsd("--cap-usd-day", text)),
    capTotalNano: take(options.capUsd, (text) => readUsd("--cap-usd", text)),
    capRequestsDay: take(options.capRequestsDay, (text) => readCount("--cap-requests-day", text)),
  };
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined));
}

/** A key's limits in a few words for a table; "-" for none. */
export function describeLimits({ models, endpoints, capDayNano, capTotalNano, capRequestsDay }: KeyLimits): string {
  const words = [
    ...(models ? [models.join(",")] : []),
    ...(endpoints ? [endpoints.join(",")] : []),
    ...(capDayNano === null ? [] : [`${toUsd(capDayNano)} USD a day`]),
    ...(capTotalNano === null ? [] : [`${toUsd(capTotalNano)} USD in all`]),
    ...(capRequestsDay === null ? [] : [`${capRequestsDay} requests a day`]),
  ];
  return words.join("; ") || "-";
}

/** Whether a key counts now, in words. */
export function describeState({ revokedAt, expiresAt }: KeyRow, now: number): string {
  if (revokedAt !== null) return `revoked ${formatTime(revokedAt)}`;
  if (expiresAt === null) return "in force";
  return expiresAt <= now ? `expired ${formatTime(expiresAt)}` : `until ${formatTime(expiresAt)}`;
}
