import { type Streamed, sseResponse } from "./sse.ts";

/** An answer that is there whole. */
export type Whole = { status: number; headers: Record<string, string>; body: string };

/** An answer of the generating endpoints, whoever sends it. */
export type Answered = Whole | Streamed;

/** An answer for whoever hands on a Response. */
export function toResponse(answered: Answered): Response {
  if ("chunks" in answered) return sseResponse(answered);
  const { status, headers, body } = answered;
  return new Response(body, { status, headers });
}
