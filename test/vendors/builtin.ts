import { FrameSplitter } from "../../src/dialects/frames.ts";
import { Abort } from "../../src/lib/abort.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { builtinVendor } from "../../src/vendors/builtin/vendor.ts";
import { toResponse } from "../../src/vendors/http/unpack.ts";
import { toUpstreamRequest } from "../../src/vendors/send.ts";
import { manualClock } from "../support/clock.ts";

/** A user message. */
export const user = (content: unknown) => ({ role: "user", content });

/** The shape of replies, loose: tests look into them. */
// biome-ignore lint/suspicious/noExplicitAny: a reply's fields are what the tests are about
export type Loose = any;

/** Sends `body` to the built-in vendor, as a gateway would. */
export async function call(
  body: unknown,
  { clock = manualClock() as Clock, signal = new AbortController().signal, path = "/chat/completions" } = {},
): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const vendor = builtinVendor(clock);
  const answer = await vendor.serve!(
    toUpstreamRequest(vendor, { path, body: text, headers: {}, abort: Abort.of(signal), userAgent: "sluice/test" }),
  );
  return answer instanceof Response ? answer : toResponse(answer);
}

/** A whole answer, parsed. */
export async function ask(body: unknown, path = "/chat/completions"): Promise<{ status: number; body: Loose }> {
  const response = await call(body, { path });
  return { status: response.status, body: await response.json() };
}

/** The data of every record of a streamed answer. */
export async function askStream(body: object): Promise<{ records: string[]; type: string }> {
  const response = await call({ ...body, stream: true });
  const splitter = new FrameSplitter();
  const frames = splitter.push(await response.text());
  const type = response.headers.get("content-type") ?? "";
  return { records: [...frames, ...splitter.end()].map((frame) => frame.data), type };
}

/** The first choice's delta of every chunk that has one. */
export const deltasOf = (chunks: Loose[]): Loose[] => chunks.flatMap((chunk) => chunk.choices?.[0]?.delta ?? []);

/** Reads a stream by hand, one record at a time. */
export function readerOf(response: Response) {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  return {
    /** The next record's data, or undefined at the end. */
    async next(): Promise<string | undefined> {
      const { done, value } = await reader.read();
      return done
        ? undefined
        : decoder
            .decode(value)
            .replace(/^data: /, "")
            .trimEnd();
    },
    cancel: () => reader.cancel(),
  };
}
