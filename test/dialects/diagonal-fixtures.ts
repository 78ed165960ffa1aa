import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { grammarFault, isFinished, normalise, plain, type Run } from "./diagonal.ts";

/** The recorded streams of a dialect: a folder for each, with what they mean beside them. */
export function fixturesOf(dialect: string) {
  const root = `${import.meta.dir}/../fixtures/${dialect}`;
  const read = (name: string, file: string) => Bun.file(`${root}/${name}/${file}`);
  return {
    cases: readdirSync(root).sort(),
    read,
    /** The bytes as text, a byte order mark included. */
    streamOf: async (name: string) =>
      new TextDecoder("utf-8", { ignoreBOM: true }).decode(await read(name, "stream.sse").bytes()),
  };
}

type Fixtures = ReturnType<typeof fixturesOf>;
type Runner = (chunks: readonly string[]) => Run;

/** That what an encoder writes of any events is read as the same events. */
export function testEncoder(eventsOf: fc.Arbitrary<Event[]>, encode: (events: Event[]) => string, run: Runner): void {
  test("decode(encode(events)) = events", () => {
    fc.assert(
      fc.property(eventsOf, (events) => {
        const read = run([encode(events)]).events;
        expect(grammarFault(read)).toBeUndefined();
        expect(normalise(read)).toEqual(normalise(events));
      }),
    );
  });
}

/** What holds for every recorded stream of a dialect: its events, the same after the diagonal, and the same however it is cut. */
export function testFixtures({ cases, read, streamOf }: Fixtures, run: Runner, terminator: RegExp): void {
  for (const name of cases) {
    test(`${name}: events`, async () => {
      const { events } = run([await streamOf(name)]);
      expect(plain(events)).toEqual(await read(name, "events.json").json());
      expect(grammarFault(events)).toBeUndefined();
    });

    test(`${name}: read again after the diagonal, the events are the same`, async () => {
      const { events, relabeled } = run([await streamOf(name)]);
      if (isFinished(events)) expect(normalise(run([relabeled]).events)).toEqual(normalise(events));
      else expect(relabeled).not.toMatch(terminator);
    });

    test(`${name}: any split of the text gives the same`, async () => {
      const text = await streamOf(name);
      const whole = run([text]);
      fc.assert(
        fc.property(fc.array(fc.nat(text.length), { maxLength: 20 }), (cuts) => {
          const places = [0, ...cuts.sort((a, b) => a - b), text.length];
          const split = run(places.slice(1).map((place, at) => text.slice(places[at], place)));
          expect(plain(split.events)).toEqual(plain(whole.events));
          expect(split.relabeled).toBe(whole.relabeled);
        }),
        { numRuns: 15 },
      );
      expect(plain(run([...text]).events)).toEqual(plain(whole.events));
    });
  }

  test("cut at any record before the last, a stream is an error and never a finish", async () => {
    let cut = 0;
    for (const name of cases) {
      const records = (await streamOf(name)).split("\n\n").filter((record) => !terminator.test(record));
      for (let count = 0; count <= records.length; count++) {
        const { events, relabeled } = run([`${records.slice(0, count).join("\n\n")}\n\n`]);
        expect(events.at(-1)?.type).toBe("error");
        expect(events.filter((event) => event.type === "finish")).toHaveLength(0);
        expect(relabeled).not.toMatch(terminator);
        cut++;
      }
    }
    expect(cut).toBeGreaterThan(150);
  });
}
