import type { Environment } from "../lib/environment.ts";
import { percentDecode } from "../lib/percent-decode.ts";
import type { Sampling } from "../observe/spans.ts";
import type { TraceSettings } from "../observe/traces.ts";
import { readCertificate, readPrivateKey } from "./pem.ts";
import type { ConfigFile } from "./schema.ts";
import { HEADER_NAME, HEADER_VALUE, type Reader, readUrl, readWhole } from "./values.ts";

const DEFAULT_SERVICE = "sluice";
const TRACES_PATH = "/v1/traces";

/** The values of `OTEL_TRACES_SAMPLER`. Where `ratio` is absent here, `OTEL_TRACES_SAMPLER_ARG` has it. */
const SAMPLERS: Readonly<Record<string, { byParent: boolean; ratio?: number }>> = {
  always_on: { byParent: false, ratio: 1 },
  always_off: { byParent: false, ratio: 0 },
  traceidratio: { byParent: false },
  parentbased_always_on: { byParent: true, ratio: 1 },
  parentbased_always_off: { byParent: true, ratio: 0 },
  parentbased_traceidratio: { byParent: true },
};

const readSampler: Reader<{ byParent: boolean; ratio?: number }> = {
  what: `one of ${Object.keys(SAMPLERS).join(", ")}`,
  from(text) {
    const name = text.toLowerCase();
    return Object.hasOwn(SAMPLERS, name) ? SAMPLERS[name] : undefined;
  },
};
const readRatio: Reader<number> = {
  what: "a number from 0 to 1",
  from: (text) => (/^\d*\.?\d+(?:e-\d+)?$/i.test(text) && Number(text) <= 1 ? Number(text) : undefined),
};
const readMilliseconds = readWhole("a whole number of milliseconds", 1, 999_999_999);
/** A queue of more than a million spans would fill the machine's memory. */
const readSpans = readWhole("a whole number of spans", 1, 1_000_000);
const readPacked: Reader<boolean> = {
  what: "gzip or none",
  from: (text) => (/^(?:gzip|none)$/i.test(text) ? text.toLowerCase() === "gzip" : undefined),
};
/** Other protocols lead to a warning. `http/protobuf`, the usual one for HTTP, does not: what takes it takes JSON as well. */
const readProtocol: Reader<string> = {
  what: "http/json, which is what is sent",
  from: (text) => (/^http\/(?:json|protobuf)$/i.test(text) ? text : undefined),
};

/** Anything but `true` means false, as in OpenTelemetry's specification of boolean variables; anything but `true` and `false` leads to a warning. */
const readSwitch: Reader<boolean> = {
  what: "true or false",
  from: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() === "true" : undefined),
};
/** Whether traces are exported: `otlp` is the only exporter here. */
const readExporter: Reader<boolean> = {
  what: "otlp or none",
  from(text) {
    const names = text.split(",").map((name) => name.trim().toLowerCase());
    return names.includes("otlp") ? true : names.includes("none") ? false : undefined;
  },
};

/**
 * The pairs of `name=value,name=value`, values percent-encoded, as OpenTelemetry's variables write headers and attributes. `odd`: something in the text is not
 * of this form, or does not pass `fits`, and is left out.
 */
function readPairs(
  text: string,
  fits: (name: string, value: string) => boolean,
): { pairs: [name: string, value: string][]; odd: boolean } {
  let odd = false;
  const pairs = text.split(",").flatMap((pair): [string, string][] => {
    const at = pair.indexOf("=");
    const name = pair.slice(0, at).trim();
    const value = percentDecode(pair.slice(at + 1).trim());
    if (at >= 1 && fits(name, value)) return [[name, value]];
    odd ||= pair.trim() !== "";
    return [];
  });
  return { pairs, odd };
}

/** OpenTelemetry's variables. One that is not valid may be meant for other programs: it counts as one that is not set, and a sentence is added to `warnings`. */
class Variables {
  constructor(
    private readonly environment: Environment,
    readonly warnings: string[],
  ) {}

  /** A variable as it is written; undefined where it is not set, or blank. */
  text(name: string): string | undefined {
    return this.environment[name]?.trim() || undefined;
  }

  read<T>(name: string, reader: Reader<T>): T | undefined {
    const text = this.text(name);
    const value = text === undefined ? undefined : reader.from(text);
    if (text !== undefined && value === undefined) {
      this.warnings.push(`${name} is left aside: expected ${reader.what}, found another text.`);
    }
    return value;
  }

  /** The pairs of a variable, as {@link readPairs} reads them. */
  pairs(name: string, fits = (written: string, _value: string) => written !== ""): [name: string, value: string][] {
    const { pairs, odd } = readPairs(this.text(name) ?? "", fits);
    if (odd) {
      this.warnings.push(
        `${name}: what is not name=value, with commas between and values percent-encoded, is left aside.`,
      );
    }
    return pairs;
  }

  /** The full name of an exporter's variable: the one for traces alone where that is set, else the one for all signals. */
  exporter(name: string): string {
    const ofTraces = `OTEL_EXPORTER_OTLP_TRACES_${name}`;
    return this.text(ofTraces) === undefined ? `OTEL_EXPORTER_OTLP_${name}` : ofTraces;
  }
}

/** Which traces are sent, by `OTEL_TRACES_SAMPLER`; undefined where that is not set: then the client's own sampling decides. */
function readSampling(variables: Variables): Sampling | undefined {
  const sampler = variables.read("OTEL_TRACES_SAMPLER", readSampler);
  if (!sampler) return undefined;
  const { byParent, ratio } = sampler;
  return { byParent, ratio: ratio ?? variables.read("OTEL_TRACES_SAMPLER_ARG", readRatio) ?? 1 };
}

/** The certificates for the connection to the collector; undefined where no variable names any. */
function readTls(variables: Variables): TraceSettings["tls"] {
  const { warnings } = variables;
  const names = [variables.exporter("CLIENT_CERTIFICATE"), variables.exporter("CLIENT_KEY")] as const;
  const told = warnings.length;
  const ca = variables.read(variables.exporter("CERTIFICATE"), readCertificate);
  const cert = variables.read(names[0], readCertificate);
  const key = variables.read(names[1], readPrivateKey);
  const own = cert !== undefined && key !== undefined ? { cert, key } : undefined;
  const halves = cert !== undefined || key !== undefined;
  if (halves && !own && warnings.length === told)
    warnings.push(`${names.join(" and ")} are left aside: each needs the other.`);
  return ca === undefined && !own ? undefined : { ...(ca !== undefined && { ca }), ...own };
}

/** The address to which traces are sent: of the file, else of a variable; undefined where there is none, or they are switched off. */
function readAddress(own: string | undefined, variables: Variables): string | undefined {
  const base = own ?? variables.text("OTEL_EXPORTER_OTLP_ENDPOINT");
  const exact = own === undefined ? variables.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") : undefined;
  const endpoint = exact ?? base;
  // Without an address no traces are sent, and no warning is due: the other variables may be there for other programs.
  if (endpoint === undefined) return undefined;
  if (variables.read("OTEL_SDK_DISABLED", readSwitch)) return undefined;
  if (variables.read("OTEL_TRACES_EXPORTER", readExporter) === false) return undefined;
  const address = readUrl.from(endpoint);
  if (address === undefined) {
    // It comes from a variable: the file's was checked with the file.
    const name = exact === undefined ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    variables.warnings.push(`No traces are sent: of ${name} expected ${readUrl.what}, found another text.`);
    return undefined;
  }
  return exact === undefined && !address.endsWith(TRACES_PATH) ? `${address}${TRACES_PATH}` : address;
}

// A line break at the end of a value, which was encoded together with it, is no part of it.
const isHeader = (name: string, value: string) => HEADER_NAME.test(name) && HEADER_VALUE.test(value.trim());

/** The headers that go with traces: those of the file over those of the variables. */
function readHeaders(own: Readonly<Record<string, string>>, variables: Variables): Record<string, string> {
  const written = [...variables.pairs(variables.exporter("HEADERS"), isHeader), ...Object.entries(own)];
  return Object.fromEntries(written.map(([name, value]) => [name.toLowerCase(), value.trim()]));
}

/**
 * Where and how traces are sent: to the file's `telemetry.otlp_endpoint`, else by OpenTelemetry's own variables; undefined when neither names
 * an address, or when `OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER=none` or the sampler switches traces off. `telemetry` was checked before. A variable
 * that is not valid may be meant for other programs: it is ignored, and a sentence about it is added to `warnings`.
 */
export function chooseTelemetry(
  telemetry: ConfigFile["telemetry"],
  environment: Environment,
  warnings: string[],
): TraceSettings | undefined {
  const variables = new Variables(environment, warnings);
  const url = readAddress(telemetry?.otlp_endpoint, variables);
  if (url === undefined) return undefined;
  const sampling = readSampling(variables);
  if (sampling?.ratio === 0 && !sampling.byParent) return undefined;
  variables.read(variables.exporter("PROTOCOL"), readProtocol);
  const { "service.name": named, ...resource } = Object.fromEntries(variables.pairs("OTEL_RESOURCE_ATTRIBUTES"));
  return {
    url,
    headers: readHeaders(telemetry?.headers ?? {}, variables),
    serviceName: telemetry?.service_name ?? variables.text("OTEL_SERVICE_NAME") ?? (named || DEFAULT_SERVICE),
    resource,
    sampling,
    timeoutMs: variables.read(variables.exporter("TIMEOUT"), readMilliseconds),
    everyMs: variables.read("OTEL_BSP_SCHEDULE_DELAY", readMilliseconds),
    maxWaiting: variables.read("OTEL_BSP_MAX_QUEUE_SIZE", readSpans),
    maxBatch: variables.read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", readSpans),
    packed: variables.read(variables.exporter("COMPRESSION"), readPacked),
    tls: readTls(variables),
  };
}
