import { type Streamed, sseResponse } from "./sse.ts";

/** An answer that is there whole. */
export type Whole = { status: number; headers: Record<string, string>; body: string };

/** An answer of the generating endpoints, whoever sends it. */
export type Answered = Whole | Streamed;

type Settings = { status?: number; headers: Record<string, string> | Headers };

/** The bodies of Responses that were there whole when these were made. */
const bodies = new WeakMap<Response, string | Uint8Array>();

/**
 * A Response whose body our own server finds by {@link bodyOf}: to read it from a stream again, and to see that nothing follows, costs as much as all
 * else that is done for a short answer.
 */
export function wholeResponse(body: string | Uint8Array<ArrayBuffer>, settings: Settings): Response {
  const response = new Response(body, settings);
  bodies.set(response, body);
  return response;
}

/** The body of a Response that {@link wholeResponse} made, and nobody has read; undefined for any other. */
export function bodyOf(response: Response): string | Uint8Array | undefined {
  return response.bodyUsed ? undefined : bodies.get(response);
}

/** An answer for whoever hands on a Response. */
export function toResponse(answered: Answered): Response {
  if ("chunks" in answered) return sseResponse(answered);
  const { status, headers, body } = answered;
  return wholeResponse(body, { status, headers });
}
