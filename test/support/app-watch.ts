import type { Store } from "../../src/db/open.ts";
import { type LeakNet, leakNet, MOST_PROMPTS, promptsOf } from "./leaks.ts";

/** Answers that are looked through though they are none of refusal: those that tell about vendors, and about what was asked. */
const TELLING = /^\/(?:admin\/v1\/(?:vendors|usage|accounts)|v1\/(?:debug|usage|account)|metrics|openapi)/;
/** Longer bodies are no conversation that a person wrote. */
const MOST_BODY = 64 * 1024;

/** Passes everything that one gateway writes through the net: its log, its refusals, its headers, and its store when it ends. */
export class AppWatch {
  readonly #prompts = new Set<string>();
  readonly #looking: Promise<void>[] = [];
  readonly #lines: string[] = [];
  #ended = false;

  constructor(
    private readonly secrets: ReadonlyMap<string, string>,
    private readonly net: LeakNet = leakNet,
  ) {}

  /** A line of the log. */
  line(text: string): void {
    this.#lines.push(text);
  }

  /** A request goes out, and this is to be its answer. */
  asked(path: string, init: RequestInit | undefined, answer: Promise<Response>): void {
    this.#noteBody(init?.body);
    this.#looking.push(answer.then((response) => this.#look(path, response)).catch(() => undefined));
  }

  /** The gateway has ended, its store is open still. A second call does nothing, as that of a gateway that is stopped twice. */
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
