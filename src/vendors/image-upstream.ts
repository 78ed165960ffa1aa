import type { Pixels } from "../lib/pixels.ts";

/** The media types that an image of this gateway may have; a vendor's answer of any other type is no result (reliability 5.4). */
export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** The largest image that is taken, bytes (reliability 5.4), and what is said of a larger one. */
export const MAX_IMAGE_BYTES = 32 * 1024 * 1024;
export const TOO_LARGE_IMAGE = "The vendor's image is larger than 32 MiB.";

/** One image to be drawn, as a vendor is asked for it. */
export type ImageRequest = {
  /** The vendor's own name of the model. */
  model: string;
  /** 1 to 32,000 characters, as the caller wrote it. */
  prompt: string;
  /** One of the model's own ratios: `16:9`. */
  ratio: string;
  /** The pixels the caller asked for, where it named any: a hint for vendors that take pixels. The ratio wins. */
  size?: Pixels;
  /** The caller's style hint; a vendor without such a field is told it at the end of the prompt, see {@link styledPrompt}. */
  style?: string;
  /** The image to be changed or re-framed; only for models that take one. */
  source?: { bytes: Uint8Array; type: ImageType };
  /** The same for every sending of one attempt, kept before the first: what a vendor's idempotency header carries. */
  key: string;
};

/** How the work on an image stands, or how it ended. Texts are shown to the caller: plain, without keys, addresses or raw answers. */
export type ImageStep =
  /** The image itself. Nothing is believed of it: its type and size are read from the bytes by whoever takes it. */
  | { kind: "image"; bytes: Uint8Array }
  /** The vendor refused the prompt or its own result on content grounds. Never tried again (interface 3). */
  | { kind: "blocked"; message: string }
  /**
   * It came to nothing. `ran: "no"`: the vendor surely did no work (refused before acceptance, busy), so that it may be tried again, after
   * `retryAfterSeconds` where the vendor named it. `fault`: the request or the account is at fault, and trying again is in vain;
   * with `elsewhere` it is the vendor's key, account or address, and another vendor may well draw it. `limited`: the key has asked too much, and
   * another one of the same vendor may draw it at once.
   */
  | {
      kind: "failed";
      message: string;
      ran: "no" | "maybe";
      fault?: true;
      elsewhere?: true;
      limited?: true;
      retryAfterSeconds?: number;
    }
  /** The vendor works on it and gives it this name: it is kept at once, and `resume` is asked after `pollAfterMs`. */
  | { kind: "pending"; resumeId: string; pollAfterMs: number };

/** What is known of a model before anything is asked of it. */
export type ImageTraits = {
  /** The ratios it draws, `<width>:<height>`, none twice. At least one. */
  ratios: readonly string[];
  /** It can be given a source image (edits, re-framing). */
  takesSource: boolean;
};

/**
 * What can be done about a job whose vendor was called when the process died (reliability 5.3). `resend`: the vendor knows the request again
 * by its `key`, so it is sent again. `resume`: it is asked for by its `resumeId`, where that came in time. `none`: nobody can know; the job
 * fails uncharged and is never sent twice.
 */
export type Recovery = "resend" | "resume" | "none";

/**
 * A vendor that draws. Its functions keep nothing: whoever calls them keeps the deadline (through `signal`), the retries and the pauses
 * between polls. They reject with the signal's reason, or with a GatewayError whose `ranOf` tells whether anything can have run; what the
 * vendor said of the image is a step and never thrown.
 */
export interface ImageUpstream {
  readonly recovery: Recovery;
  /** Facts of a model by the vendor's own name of it; also for names nobody has heard of. */
  traits(model: string): ImageTraits;
  /** Asks for the image. Called once for each attempt, but for `resend` vendors after a crash. */
  create(request: ImageRequest, signal: AbortSignal): Promise<ImageStep>;
  /** How the work of that name stands; `request` is without its source. Only where steps can be pending. Asking twice changes nothing. */
  resume?(resumeId: string, request: Omit<ImageRequest, "source">, signal: AbortSignal): Promise<ImageStep>;
  /** Tells the vendor that nobody waits any more. `resumeId` is undefined where none was given yet. A rejection is only logged. */
  cancel?(resumeId: string | undefined, signal: AbortSignal): Promise<void>;
}

/** The prompt with its style behind it, for vendors that have no field of their own for that (dialects.md 7). */
export function styledPrompt({ prompt, style }: Pick<ImageRequest, "prompt" | "style">): string {
  return style ? `${prompt}\n\nStyle: ${style}` : prompt;
}
