import { expected } from "./faults.ts";
import type { Reader } from "./values.ts";

/** What the command line may set: the words as they were typed. */
export type Flags = {
  host?: string;
  port?: string;
  data?: string;
  config?: string;
  publicUrl?: string;
  cdnUrl?: string;
};

/** Takes settings by order: flag, then environment, then file, then default (contract 2). Faults are collected. */
export class Chooser {
  readonly faults: string[] = [];
  fromFlags = false;

  constructor(
    readonly flags: Flags,
    readonly variables: Readonly<Record<string, string>>,
  ) {}

  /** The variable's value, or that of the flag which goes before it; undefined where neither was set. */
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
