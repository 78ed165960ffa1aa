import type { Store } from "../../src/db/open.ts";
import { type LeakNet, leakNet, MOST_PROMPTS, promptsOf } from "./leaks.ts";

/** Paths whose answers are searched for secrets even when they are no refusals: those that tell about vendors, and about earlier requests. */
const TELLING = /^\/(?:admin\/v1\/(?:vendors|usage|accounts)|v1\/(?:debug|usage|account)|metrics|openapi)/;
/** Prompts are taken from bodies of at most so many characters: a longer one is not what a person wrote. */
const MOST_BODY = 64 * 1024;

/** Searches everything that one gateway writes for secrets: its log, its refusals, its headers, and at its end its store. */
export class AppWatch {
  readonly #prompts = new Set<string>();
  readonly #looking: Promise<void>[] = [];
  readonly #lines: string[] = [];
  #ended = false;

  constructor(
    private readonly secrets: ReadonlyMap<string, string>,
    private readonly net: LeakNet = leakNet,
  ) {}

  /** Notes a line of the log. */
  line(text: string): void {
    this.#lines.push(text);
  }

  /** Notes a request that goes out, and looks at its answer when that comes. */
  asked(path: string, init: RequestInit | undefined, answer: Promise<Response>): void {
    this.#noteBody(init?.body);
    this.#looking.push(answer.then((response) => this.#look(path, response)).catch(() => undefined));
  }

  /** To be called when the gateway has ended and its store is still open. A second call does nothing: a gateway may be stopped twice. */
  async end(store: Store): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await Promise.all(this.#looking);
    const log = this.#lines.join("\n");
    this.net.look(log, "the log", this.secrets);
    this.net.look(log, "the log", new Map([...this.#prompts].map((prompt) => [prompt, "a prompt"])), false);
    this.net.look(Buffer.from(store.database.serialize()).toString("latin1"), "the store", this.secrets);
  }

  #noteBody(body: unknown): void {
    if (typeof body !== "string" || body.length > MOST_BODY || !body.startsWith("{")) return;
    try {
      for (const prompt of promptsOf(JSON.parse(body)))
        if (this.#prompts.size < MOST_PROMPTS) this.#prompts.add(prompt);
    } catch {
      // What is no JSON holds no conversation.
    }
  }

  async #look(path: string, response: Response): Promise<void> {
    const where = `an answer of ${path.split("?", 1)[0]}`;
    this.net.look(JSON.stringify([...response.headers]), `a header of ${where}`, this.secrets);
    const type = response.headers.get("content-type") ?? "";
    if (response.bodyUsed || type.startsWith("text/event-stream") || type.startsWith("image/")) return;
    if (response.status < 400 && !TELLING.test(path)) return;
    this.net.look(await response.clone().text(), where, this.secrets);
  }
}
