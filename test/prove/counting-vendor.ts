/** What a request's text asks of the vendor: how it answers, and who asked. */
export type Wish = {
  id: string;
  account: string;
  input: number;
  output: number;
  delayMs?: number;
  fails?: boolean;
  words?: number;
};

/** A vendor that answers as the text of a request asks, and counts everything for itself. */
export type CountingVendor = {
  url: string;
  /** How often each request came. */
  calls: Map<string, number>;
  /** Tokens that were answered in full, by account. */
  answered: Map<string, { input: number; output: number }[]>;
  stop(): void;
};

const encoder = new TextEncoder();

function* streamOf({ id, input, output, words = 1 }: Wish): Generator<string> {
  const chunk = (fields: Record<string, unknown>) =>
    `data: ${JSON.stringify({ id: `c-${id}`, object: "chat.completion.chunk", created: 1, model: "paid", ...fields })}\n\n`;
  yield chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });
  for (let piece = 0; piece < 4; piece++) {
    yield chunk({ choices: [{ index: 0, delta: { content: "Well. ".repeat(words) }, finish_reason: null }] });
  }
  yield chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  yield chunk({ choices: [], usage: usageOf(input, output) });
  yield "data: [DONE]\n\n";
}

const usageOf = (input: number, output: number) => ({
  ...{ prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
});

function whole({ id, input, output }: Wish): Response {
  const message = { role: "assistant", content: "Well." };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  const reply = { id: `c-${id}`, object: "chat.completion", created: 1, model: "paid", choices };
  return Response.json({ ...reply, usage: usageOf(input, output) });
}

async function* slowly(wish: Wish): AsyncGenerator<Uint8Array> {
  for (const text of streamOf(wish)) {
    if (wish.delayMs) await Bun.sleep(wish.delayMs / 4);
    yield encoder.encode(text);
  }
}

/** Starts the vendor on a free port. */
export function startCountingVendor(): CountingVendor {
  const calls = new Map<string, number>();
  const answered = new Map<string, { input: number; output: number }[]>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    async fetch(request) {
      const body = (await request.json()) as { stream?: boolean; messages: { content: string }[] };
      const wish = JSON.parse(body.messages[0]?.content ?? "{}") as Wish;
      calls.set(wish.id, (calls.get(wish.id) ?? 0) + 1);
      if (wish.fails) return Response.json({ error: { message: "No." } }, { status: 500 });
      const counts = answered.get(wish.account) ?? [];
      answered.set(wish.account, counts);
      counts.push({ input: wish.input, output: wish.output });
      if (body.stream) return new Response(slowly(wish), { headers: { "content-type": "text/event-stream" } });
      if (wish.delayMs) await Bun.sleep(wish.delayMs);
      return whole(wish);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    calls,
    answered,
    stop: () => void server.stop(true),
  };
}
