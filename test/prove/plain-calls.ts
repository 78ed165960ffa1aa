/**
 * Calls as always, for `slow-clients.ts`: `bun test/prove/plain-calls.ts URL MS`, with the key in SLUICE_KEY. By itself, so that how long they take is the
 * gateway's doing, and not that of whoever plays the slow clients. Prints how long the slowest hundredth took, ms, and the statuses that came.
 */
import { quantile } from "./look.ts";

const CALLERS = 8;

const [url = "", ms = ""] = process.argv.slice(2);
const key = process.env["SLUICE_KEY"] ?? "";
const took: number[] = [];
const statuses = new Set<number>();
const until = performance.now() + Number(ms);

async function call(): Promise<void> {
  while (performance.now() < until) {
    const startedAt = performance.now();
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "lab/m", messages: [{ role: "user", content: "Hello" }] }),
    });
    await response.text();
    statuses.add(response.status);
    took.push(performance.now() - startedAt);
  }
}

await Promise.all(Array.from({ length: CALLERS }, call));
console.log(JSON.stringify({ p99Ms: quantile(took, 0.99), statuses: [...statuses] }));
