import { encodePng, newPicture } from "../../src/vendors/builtin/canvas-picture.ts";

/** Vendors by what they offer after a crash (reliability 5.3). */
export const KINDS = ["plain", "named", "keyed"] as const;

/** USD and nano-USD of one image beyond the allowance. */
export const UNIT_USD = 0.02;
export const UNIT_NANO = 20_000_000n;

/** How a prompt wants its image to end: its first word. */
export type Wanted = "image" | "blocked" | "failed";

const PNG = await encodePng(newPicture(16, 9));

/** A vendor that counts how often each prompt was worked on, in a process that is not killed. */
export type CountingVendor = {
  url: string;
  /** Work that was begun, by prompt: a vendor bills for each. */
  works: Map<string, number>;
  stop(): void;
};

/** What a prompt such as `image 120 name` asks for, and how long it takes, ms. */
function read(prompt: string): { wanted: Wanted; delayMs: number } {
  const [wanted = "image", delay = "0"] = prompt.split(" ");
  return { wanted: wanted as Wanted, delayMs: Number(delay) };
}

function answer(wanted: Wanted): Response {
  if (wanted === "image") return new Response(PNG, { headers: { "content-type": "image/png" } });
  return new Response(wanted, { status: wanted === "blocked" ? 403 : 500 });
}

type Work = { prompt: string; done: Promise<void>; ended: boolean };

/** Starts it on a free port. */
export function startDrawingVendor(): CountingVendor {
  const works = new Map<string, number>();
  const byName = new Map<string, Work>();
  const begin = (prompt: string): Work => {
    works.set(prompt, (works.get(prompt) ?? 0) + 1);
    const work: Work = { prompt, ended: false, done: Bun.sleep(read(prompt).delayMs) };
    work.done = work.done.then(() => {
      work.ended = true;
    });
    return work;
  };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const [, kind, name] = new URL(request.url).pathname.split("/");
      if (name) {
        const known = byName.get(name);
        if (!known) return new Response("unknown work", { status: 404 });
        return known.ended ? answer(read(known.prompt).wanted) : Response.json({ id: name }, { status: 202 });
      }
      const { prompt, key } = (await request.json()) as { prompt: string; key: string };
      const known = kind === "keyed" ? byName.get(key) : undefined;
      const work = known ?? begin(prompt);
      if (kind === "keyed") byName.set(key, work);
      if (kind === "named") {
        const id = crypto.randomUUID();
        byName.set(id, work);
        return Response.json({ id }, { status: 202 });
      }
      await work.done;
      return answer(read(prompt).wanted);
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, works, stop: () => void server.stop(true) };
}
