import type { Event } from "../canon/events.ts";
import { ownText } from "../lib/own-text.ts";
import { Frame, learnPattern, type TextPattern, type TextRun } from "./frames.ts";

/** The two ways of writing records. */
export type RecordWriter = {
  /** One record, as carefully as any other. */
  writeRecord(record: Frame): string;
  /** The raw text of what stands in a record before its words, or behind them. */
  writeRaw(raw: string): string;
};

/** What stands around the words of a pattern's records, as the client gets it. */
type Around = Pick<TextPattern, "head" | "link" | "last">;

const BLANK_LINE = "\n\n";

/** What stands around `words` in a record as it was written; undefined where that is not one record, or they do not stand in it once and as they are. */
function aroundWords(written: string, words: string): Around | undefined {
  const raw = written.slice(0, -BLANK_LINE.length);
  const isOne = written.endsWith(BLANK_LINE) && !raw.includes(BLANK_LINE);
  return isOne ? learnPattern(new Frame(raw, undefined, ""), words) : undefined;
}

/**
 * Writes runs for a relabeler. The first record of a pattern that has words tells for all of them what the careful way makes of what stands around their words,
 * which the quick one writes once for all; where that cannot be told, every record goes the careful way.
 */
export class RunWriter {
  #pattern: TextPattern | undefined;
  /** Absent: the careful way. */
  #around: Around | undefined;

  constructor(private readonly writer: RecordWriter) {}

  /** The run's records for the client; "" when reading it ended in an error, which is written by whoever ends the stream. */
  write(frame: Frame, run: TextRun, events: readonly Event[]): string {
    if (events.at(-1)?.type === "error") return "";
    if (run.pattern === this.#pattern)
      return this.#around ? this.#writeQuick(frame, run, this.#around) : this.#writeEach(run.frames());
    // A record without words may be let pass where one with some is not: it tells nothing of the others.
    if (run.beginsBlank) return this.#writeEach(run.frames());
    this.#pattern = run.pattern;
    this.#around = undefined;
    const records = run.frames();
    const first = records.next().value;
    if (!first) return "";
    const text = this.writer.writeRecord(first);
    const around = this.#writeAround(run.pattern);
    // Some say in every record what the client is told once, as OpenRouter does the role.
    this.#around = run.first.write(around) === text ? around : aroundWords(text, run.first.text);
    return this.#around ? this.#writeQuick(frame, run, this.#around) : text + this.#writeEach(records);
  }

  /** Where nothing around the words is another, the records go on as they came. */
  #writeQuick(frame: Frame, run: TextRun, around: Around): string {
    return around.link === run.pattern.link ? frame.raw : run.write(around);
  }

  #writeAround({ head, last }: TextPattern): Around {
    const [before, behind] = [this.writer.writeRaw(head), this.writer.writeRaw(last)];
    return { head: before, last: behind, link: ownText(behind + before) };
  }

  #writeEach(records: Iterable<Frame>): string {
    let text = "";
    for (const record of records) text += this.writer.writeRecord(record);
    return text;
  }
}
