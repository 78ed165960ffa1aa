/** What the executable of fetch-binary.test.ts runs: the pages named on its command line, read in a thread, one line of JSON each. */
import { systemClock } from "../../src/lib/clock.ts";
import { ReaderPool } from "../../src/web/extract/pool.ts";
import { fetchPages } from "../../src/web/fetch/pages.ts";
import { createSafeFetch } from "../../src/web/safe-fetch/safe-fetch.ts";

const urls = process.argv.slice(2);
const clock = systemClock;
const reader = new ReaderPool(clock);
const allowHosts = ["127.0.0.1"];
const safeFetch = createSafeFetch({
  clock,
  userAgent: "sluice/test",
  allowHosts,
  publicUrl: undefined,
  ownPort: () => undefined,
});
const onFault = (thrown: unknown) => console.error(thrown);
for (const result of await fetchPages(urls, {}, { clock, safeFetch, reader, onFault })) {
  console.log(JSON.stringify(result));
}
reader.stop();
