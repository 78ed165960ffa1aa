import { parseProxyRange } from "../http/caller/address.ts";
import { LOG_LEVELS, type LogLevel } from "../observe/log.ts";
import { isHostRule } from "../web/safe-fetch/rules.ts";

/** Reads one kind of setting: `from` gives a text's value, or undefined when it is not valid; `what` is what a fault says was expected. */
export type Reader<T> = { from(text: string): T | undefined; what: string };

/** A whole number from `least` to `most`, written with at most as many digits as `most` has. */
export const readWhole = (what: string, least: number, most: number): Reader<number> => ({
  what: `${what} from ${least} to ${most}`,
  from(text) {
    if (!/^\d+$/.test(text) || text.length > String(most).length) return undefined;
    return Number(text) >= least && Number(text) <= most ? Number(text) : undefined;
  },
});

/** A port, 0 for any free one. */
export const readPort = readWhole("a port", 0, 65_535);
/** A time, seconds, up to an hour. */
export const readSeconds = readWhole("a whole number of seconds", 1, 3600);

/** A host name or an IP address to listen on, in the one spelling that URLs have for it, without the brackets of an IPv6 address. */
export const readHost: Reader<string> = {
  what: "a host name or an IP address",
  from(text) {
    const host = /^\[.*\]$/.test(text) ? text.slice(1, -1) : text;
    if (host.includes(":")) return URL.parse(`http://[${host}]/`)?.hostname.slice(1, -1);
    return /^(?!-)[A-Za-z0-9.-]{1,253}(?<!-)$/.test(host) ? URL.parse(`http://${host}/`)?.hostname : undefined;
  },
};

/**
 * A secret that a header carries. Blanks and characters beyond ASCII in it are a mistake, and so are quotes around it, which
 * `docker run --env-file` and `set` of cmd.exe make a part of the value.
 */
export const readKey: Reader<string> = {
  what: "printable characters without spaces and without quotes around them",
  from: (text) => (/^[\x21-\x7e]+$/.test(text) && !/^["']|["']$/.test(text) ? text : undefined),
};

/** What may be a header's name, and its value: text on one line without control characters. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
export const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** An http or https address. User name, query, fragment and blanks are refused, since paths are appended to it; slashes at its end are cut. */
export const readUrl: Reader<string> = {
  what: "a URL beginning with http:// or https://, without user name, query or fragment",
  from(text) {
    if (!/^https?:\/\//i.test(text) || !URL.canParse(text) || /[?#\s]/.test(text)) return undefined;
    const { username, password } = new URL(text);
    return username === "" && password === "" ? text.replace(/\/+$/, "") : undefined;
  },
};

/** An address of a checked file, as {@link readUrl} reads it. */
export const fileUrl = (written: string | undefined): string | undefined =>
  written === undefined ? undefined : readUrl.from(written);

/** Origins of desktop programs that are made of web pages (`app://obsidian.md`, `tauri://localhost`, `file://`), and `null`, which any page may have. */
const APP_ORIGIN = /^(?:(?!https?:)[a-z][a-z0-9+.-]*:\/\/[a-z0-9._:-]*|null)$/;

/** An exact origin: never `*`, never with a path (reliability 7.3). */
export const readOrigin: Reader<string> = {
  what: "an origin such as https://app.example.com",
  from(text) {
    const origin = text.toLowerCase();
    if (APP_ORIGIN.test(origin)) return origin;
    const url = URL.canParse(text) ? new URL(text) : undefined;
    return url && /^https?:$/.test(url.protocol) && url.origin === origin ? url.origin : undefined;
  },
};

/** Proxies in front of this server whose `X-Forwarded-For` is believed. */
export const readProxy: Reader<string> = {
  what: "an IP address or a range such as 10.0.0.0/8",
  from: (text) => (parseProxyRange(text) ? text : undefined),
};

/** A host of a private network that pages may be fetched from all the same. */
export const readHostRule: Reader<string> = {
  what: "a host name, *.name, an IP address or a range such as 10.0.0.0/8, with or without :port",
  from: (text) => (isHostRule(text) ? text : undefined),
};

const YES = ["1", "true", "yes", "on"];
const NO = ["0", "false", "no", "off"];

/** A switch, in the words of environments and of YAML. */
export const readFlag: Reader<boolean> = {
  what: "true or false",
  from(text) {
    const word = text.toLowerCase();
    if (YES.includes(word)) return true;
    return NO.includes(word) ? false : undefined;
  },
};

/** The lowest level of lines that are logged. */
export const readLogLevel: Reader<LogLevel> = {
  what: `one of ${LOG_LEVELS.join(", ")}`,
  from: (text) => LOG_LEVELS.find((level) => level === text.toLowerCase()),
};

/** One of these words, spelled exactly so. */
export const readWord = (...words: readonly string[]): Reader<string> => ({
  what: words.join(" or "),
  from: (text) => words.find((word) => word === text),
});

/** Several of a kind, separated by commas. */
export function readList<T>(reader: Reader<T>): Reader<T[]> {
  return {
    what: `${reader.what}, or several separated by commas`,
    from(text) {
      const values = text.split(",").map((item) => reader.from(item.trim()));
      return values.includes(undefined) ? undefined : (values as T[]);
    },
  };
}
