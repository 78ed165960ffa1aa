import type { Event } from "../canon/events.ts";
import type { Frame, TextPattern, TextRun } from "./frames.ts";

/** The two ways of writing records. */
export type RecordWriter = {
  /** One record, as carefully as any other. */
  writeRecord(record: Frame): string;
  /** The raw text of one record, or of many of one pattern, with the last blank line. */
  writeRaw(raw: string): string;
};

/**
 * Writes runs for a relabeler. The first record of a pattern tells for all of them whether the quick way, which takes the raw text of
 * one record or of many, gives what the careful one gives; where it does not, every record goes the careful way.
 */
export class RunWriter {
  #pattern: TextPattern | undefined;
  #isQuick = false;

  constructor(private readonly writer: RecordWriter) {}

  /** The run's records for the client; "" when reading it ended in an error, which is written by whoever ends the stream. */
  write(frame: Frame, run: TextRun, events: readonly Event[]): string {
    if (events.at(-1)?.type === "error") return "";
    if (run.pattern === this.#pattern)
      return this.#isQuick ? this.writer.writeRaw(frame.raw) : this.#writeEach(run.frames());
    this.#pattern = run.pattern;
    const records = run.frames();
    const first = records.next().value;
    if (!first) return "";
    const text = this.writer.writeRecord(first);
    this.#isQuick = this.writer.writeRaw(`${first.raw}\n\n`) === text;
    return this.#isQuick ? this.writer.writeRaw(frame.raw) : text + this.#writeEach(records);
  }

  #writeEach(records: Iterable<Frame>): string {
    let text = "";
    for (const record of records) text += this.writer.writeRecord(record);
    return text;
  }
}
