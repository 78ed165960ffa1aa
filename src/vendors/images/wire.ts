import type { ImageRequest, ImageTraits, Recovery } from "../image-upstream.ts";

/** A vendor's answer to one call, whole and within its bounds. */
export type Answer = { status: number; headers: Headers; bytes: Uint8Array; json: unknown };

/** One call below the vendor's base URL, and how its answer is understood. `url` in place of `path`: the vendor's own, checked before it is asked. */
export type Call = {
  method: "GET" | "POST" | "PUT" | "DELETE";
  body?: Record<string, unknown> | FormData;
  /** Default: JSON. */
  accept?: string;
  /** It only prepares something, such as an upload: even where it fails, nothing was drawn. */
  prepares?: true;
  /** What an answer of status 2xx means. What it throws, but for RequestFault, counts as an answer that cannot be read. */
  read(answer: Answer): Reading;
} & ({ path: string; url?: undefined } | { url: string; path?: undefined });

/** What an answer says of the image. Texts are shown to the caller. */
export type Reading =
  | { kind: "bytes"; bytes: Uint8Array }
  | { kind: "base64"; data: string }
  /** Where the image lies: a data URL, an https URL, or one at the vendor's own address, perhaps relative to it. */
  | { kind: "url"; url: string }
  | { kind: "pending"; resumeId: string; pollAfterMs: number }
  /** The answer asks for another call. */
  | { kind: "next"; call: Call }
  | { kind: "blocked" }
  /**
   * The vendor says that it failed. `words` are its own, shown scrubbed; they may also tell that it was a refusal, see `Refusal.text`, unless they are
   * what a model said in the place of an image (`isProse`).
   */
  | { kind: "failed"; words?: string; isProse?: true };

/** How an error answer is recognised as a refusal on content grounds (dialects.md 7). */
export type Refusal = {
  /** Searched for in the words for programs that the answer holds, at any depth: those in fields called `code`, `type`, `status` and the like. */
  code?: RegExp;
  /** Searched for in its sentences, for vendors that say it in no other way. */
  text?: RegExp;
};

/** How a model that takes pixels wants them. Area and edge in pixels. */
export type PixelRule = {
  multiple: number;
  /** What is drawn where the caller named no size. */
  area: number;
  /** Bounds of what a caller's own size may ask for. */
  minArea: number;
  maxArea: number;
  maxEdge: number;
};

/** Facts of the models that `match` fits; the first such row of a vendor counts. */
export type ImageModel = ImageTraits & {
  match: RegExp;
  /** How its size is said; each wire knows the forms that its vendors use. `none`: it is told none, and draws what it likes. */
  size?: "ratio" | "fixed" | "pixels" | "none";
  /** For `ratio`: the field that holds it, where that is not `aspect_ratio`. */
  ratioField?: string;
  /** For `fixed`: what each ratio is called. */
  sizes?: Readonly<Record<string, string>>;
  /** For `pixels`. */
  pixels?: PixelRule;
  /** The field that a source image goes into, and whether as a list, where a vendor's models differ in that. */
  sourceField?: string;
  sourceList?: boolean;
  /** A style of this field that the model knows by name; others go into the prompt. */
  styles?: { field: string; names: readonly string[] };
  /** Words of a larger resolution, for callers that ask for as many pixels; least first. */
  resolutions?: { field: string; steps: readonly { area: number; name: string }[] };
  /** Fields that are sent as they are. */
  extra?: Readonly<Record<string, unknown>>;
  /** A path of its own, where a vendor's models lie at several. */
  path?: string;
  /** Wire forms within a vendor: which of a wire's ways this model goes. */
  form?: string;
};

/** What a wire is given beside the request. */
export type WireContext = {
  /** The facts of the model asked for. */
  model: ImageModel;
  /** The vendor's base URL, without a slash at the end. */
  baseUrl: string;
  /** A graph with placeholders, for vendors that draw by one; the operator's own. */
  workflow?: Readonly<Record<string, unknown>>;
};

/**
 * How images are asked for in one protocol: pure, all input and output is the engine's. `create` may throw RequestFault where the request cannot be
 * put into its words.
 */
export type Wire = {
  recovery: Recovery;
  create(request: ImageRequest, context: WireContext): Call;
  /** Only where readings can be pending. Throws RequestFault where the name is none that this wire gave. */
  resume?(resumeId: string, request: Omit<ImageRequest, "source">, context: WireContext): Call;
  /** Tells the vendor to stop the named work. */
  cancel?(resumeId: string, context: WireContext): Call;
  /** Tells the vendor to stop work that has no name: asked once nobody waits for `create` any more. */
  abandon?(request: ImageRequest, context: WireContext): Call;
};

/** How a vendor lists the models it draws with. `read` gives undefined for an answer that is no such list. */
export type ImageModelList = { path: string; read(answer: unknown): unknown[] | undefined };

/** A vendor that draws, as data. */
export type ImageRow = {
  wire: Wire;
  /** The last one fits every name. */
  models: readonly ImageModel[];
  refusal: Refusal;
  /** Absent: it has none that is known. */
  list?: ImageModelList;
  /** What has the list of a vendor that also talks tell of those that only draw, where it does not by itself. */
  listQuery?: string;
  /** Hosts beside the base URL's own that belong to the API and are given its key: `.name` for all below a domain. */
  apiHosts?: readonly string[];
};

/** The request cannot be said in the vendor's words. The message is for the caller. */
export class RequestFault extends Error {
  override readonly name = "RequestFault";
}

/** For models that have no place for a source image, whatever is said of them. */
export function refuseSource({ source }: Pick<ImageRequest, "source">): void {
  if (source) throw new RequestFault("This model takes no source image.");
}
