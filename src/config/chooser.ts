import { expected } from "./faults.ts";
import type { Reader } from "./values.ts";

/** The settings of the command line, as they were typed. */
export type Flags = {
  host?: string;
  port?: string;
  data?: string;
  config?: string;
  publicUrl?: string;
  cdnUrl?: string;
};

/** Reads settings from flags, then from the environment; file and defaults come after (contract 2). It collects the faults. `fromFlags`: a flag has one. */
export class Chooser {
  readonly faults: string[] = [];
  fromFlags = false;

  constructor(
    readonly flags: Flags,
    readonly variables: Readonly<Record<string, string>>,
  ) {}

  /** The value of `flag`, else of `variable`; undefined where neither was set, and where the value is a fault. */
  take<T>(variable: string, reader: Reader<T>, flag?: keyof Flags): T | undefined {
    const typed = flag === undefined ? undefined : this.flags[flag];
    const written = typed ?? this.variables[variable];
    if (written === undefined) return undefined;
    const value = reader.from(written);
    if (value !== undefined) return value;
    const name =
      typed === undefined ? variable : `--${flag!.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    this.faults.push(`${name}: ${expected(reader.what, written, []).problem}`);
    this.fromFlags ||= typed !== undefined;
    return undefined;
  }
}
