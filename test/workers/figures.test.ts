import { expect, test } from "bun:test";
import { type Figure, Histogram, single, writeFigures } from "../../src/observe/figures.ts";
import { lastingFigures, mergeFigures } from "../../src/observe/merge-figures.ts";
import { readFigures } from "../../src/workers/messages.ts";

const valuesOf = (figures: readonly Figure[], name: string) =>
  figures.filter((figure) => figure.name === name).flatMap(({ samples }) => samples.map(({ value }) => value));

function process(served: number, lag: number, seconds: readonly number[]): Figure[] {
  const histogram = new Histogram([1, 5]);
  for (const each of seconds) histogram.observe(each);
  return [
    { name: "sluice_build_info", type: "gauge", help: "", samples: [{ labels: { version: "1" }, value: 1 }] },
    {
      ...{ name: "sluice_vendor_calls_total", type: "counter", help: "" },
      samples: [{ labels: { vendor: "lab", result: "served" }, value: served }],
    },
    {
      name: "sluice_event_loop_lag_seconds",
      type: "summary",
      help: "",
      samples: [{ labels: { quantile: "1" }, value: lag }],
    },
    {
      name: "sluice_request_duration_seconds",
      type: "histogram",
      help: "",
      samples: histogram.samples({ model: "m" }),
    },
    single("sluice_requests_running", "gauge", "", 2),
  ];
}

test("counters, histograms and gauges of several processes are summed, the worst lag counts, what they are is told once", () => {
  const merged = mergeFigures([process(3, 0.2, [0.5, 2]), process(4, 0.1, [9])]);
  expect(valuesOf(merged, "sluice_vendor_calls_total")).toEqual([7]);
  expect(valuesOf(merged, "sluice_event_loop_lag_seconds")).toEqual([0.2]);
  expect(valuesOf(merged, "sluice_request_duration_seconds")).toEqual([1, 2, 3, 11.5, 3]);
  expect(valuesOf(merged, "sluice_requests_running")).toEqual([4]);
  expect(valuesOf(merged, "sluice_build_info")).toEqual([1]);
  expect(new Set(merged.map(({ name }) => name)).size).toBe(merged.length);
});

test("sums are the same text in whichever order their processes come", () => {
  const costs = [0.1, 0.2, 0.3, 0.000000001].map((cost) => [single("sluice_cost_usd_total", "counter", "", cost)]);
  const text = writeFigures(mergeFigures(costs));
  expect(text).toContain("\nsluice_cost_usd_total 0.600000001\n");
  for (let turn = 0; turn < costs.length; turn++) {
    costs.push(costs.shift()!);
    expect(writeFigures(mergeFigures(costs))).toBe(text);
  }
});

test("samples of other labels stay apart", () => {
  const of = (vendor: string): Figure => ({
    ...{ name: "sluice_vendor_calls_total", type: "counter", help: "" },
    samples: [{ labels: { vendor }, value: 1 }],
  });
  expect(mergeFigures([[of("one")], [of("two")]])[0]?.samples).toEqual([
    { labels: { vendor: "one" }, value: 1 },
    { labels: { vendor: "two" }, value: 1 },
  ]);
});

test("of a process that is gone what it counted stays, and what it was doing does not", () => {
  const names = lastingFigures(process(1, 1, [1])).map(({ name }) => name);
  expect(names).toEqual(["sluice_vendor_calls_total", "sluice_request_duration_seconds"]);
});

test("an infinite figure is one on the other side, alone and beside another", () => {
  const figures = [single("sluice_admission_limit", "gauge", "", Number.POSITIVE_INFINITY)];
  const crossed = readFigures(JSON.parse(JSON.stringify(figures)) as Figure[]);
  expect(crossed).toEqual(figures);
  expect(
    valuesOf(mergeFigures([crossed, [single("sluice_admission_limit", "gauge", "", 57)]]), "sluice_admission_limit"),
  ).toEqual([Number.POSITIVE_INFINITY]);
});
