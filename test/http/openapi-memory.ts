import { isObject } from "../../src/lib/json.ts";
import { isSlot } from "./openapi-values.ts";

/** What earlier answers gave, by kind: ids, cursors, names of files. */
export class Memory {
  readonly #known = new Map<string, unknown[]>();

  constructor(private readonly own: ReadonlySet<string>) {}

  keep(name: string, value: unknown): void {
    if (typeof value === "string" && this.own.has(value)) return;
    const known = this.#known.get(name) ?? [];
    // The newest are kept: cursors and jobs grow old.
    if (!known.includes(value)) this.#known.set(name, [...known, value].slice(-50));
  }

  /** Everything that an answer to `path` names. */
  learn(value: unknown, path: string): void {
    if (Array.isArray(value)) for (const entry of value) this.learn(entry, path);
    if (!isObject(value)) return;
    const kinds: Record<string, string> = {
      "image.generation.job": "jobs",
      account: "accounts",
      key: "keys",
      token: "tokens",
    };
    const kind = kinds[String(value["object"])];
    if (kind !== undefined) this.keep(kind, value["id"]);
    if (typeof value["request_id"] === "string" && value["object"] === "usage")
      this.keep("requests", value["request_id"]);
    if (typeof value["next_cursor"] === "string") this.keep(`cursor ${path}`, value["next_cursor"]);
    if (typeof value["next_before"] === "string") this.keep("before", value["next_before"]);
    if (typeof value["url"] === "string" && value["url"].includes("/files/"))
      this.keep("files", value["url"].split("/").at(-1));
    for (const inner of Object.values(value)) if (typeof inner === "object") this.learn(inner, path);
  }

  /** A draft's value with its slots filled; undefined for one of which nothing is known yet. */
  fill(value: unknown): unknown {
    if (isSlot(value)) {
      const known = this.#known.get(value.slot) ?? [];
      return known[value.pick % Math.max(1, known.length)];
    }
    if (Array.isArray(value)) return value.map((entry) => this.fill(entry));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, this.fill(inner)]));
  }
}
