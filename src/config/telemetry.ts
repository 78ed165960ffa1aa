import type { TraceSettings } from "../observe/traces.ts";
import { ConfigError } from "./faults.ts";
import type { ConfigFile } from "./schema.ts";
import { readUrl } from "./values.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const DEFAULT_SERVICE = "sluice";
const TRACES_PATH = "/v1/traces";

/** `name=value,name=value`, values percent-encoded, as OpenTelemetry's variables write headers. */
function readHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const pair of text.split(",")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, at).trim().toLowerCase();
    if (at < 1 || !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) continue;
    const value = pair.slice(at + 1).trim();
    headers[name] = decode(value);
  }
  return headers;
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    // A percent sign that encodes nothing stands for itself.
    return value;
  }
}

/**
 * Where traces go: the file's `telemetry.otlp_endpoint`, else OpenTelemetry's own variables; undefined when neither is there, or when
 * `OTEL_SDK_DISABLED` or `OTEL_TRACES_EXPORTER=none` says so. Throws ConfigError for an address of the file that is none; one of the variables,
 * which may be meant for other programs, is told in `warnings`.
 */
export function chooseTelemetry(
  telemetry: ConfigFile["telemetry"],
  environment: Environment,
  warnings: string[],
): TraceSettings | undefined {
  const read = (name: string) => environment[name]?.trim() || undefined;
  if (read("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || read("OTEL_TRACES_EXPORTER") === "none") return undefined;
  const own = telemetry?.otlp_endpoint;
  const base = own ?? read("OTEL_EXPORTER_OTLP_ENDPOINT");
  const exact = own === undefined ? read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") : undefined;
  const written = exact ?? base;
  if (written === undefined) return undefined;
  const address = readUrl.from(written);
  if (address === undefined) {
    const wanted = `expected ${readUrl.what}, found another text`;
    if (own !== undefined) throw new ConfigError([`telemetry.otlp_endpoint: ${wanted}`]);
    warnings.push(`No traces are sent: of OTEL_EXPORTER_OTLP_ENDPOINT ${wanted}.`);
    return undefined;
  }
  const fromVariables = read("OTEL_EXPORTER_OTLP_TRACES_HEADERS") ?? read("OTEL_EXPORTER_OTLP_HEADERS") ?? "";
  return {
    url: exact === undefined && !address.endsWith(TRACES_PATH) ? `${address}${TRACES_PATH}` : address,
    headers: { ...readHeaders(fromVariables), ...telemetry?.headers },
    serviceName: telemetry?.service_name ?? read("OTEL_SERVICE_NAME") ?? DEFAULT_SERVICE,
  };
}
