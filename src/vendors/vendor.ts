import type { Quirks, UpstreamDialectName } from "../dialects/dialect.ts";
import type { Abort } from "../lib/abort.ts";
import type { Answer } from "./answer.ts";
import type { ImageUpstream } from "./image-upstream.ts";

/**
 * How an upstream wants its key: a header's name and form. `service-account`: the key is the JSON of a Google service account, or of a user
 * who has logged in with gcloud, or the path of its file, and every call carries a token got for it. `sigv4`: every call is signed the AWS way. `key`: the header
 * `authorization` with the word Key before the key. `basic`: the key is `user:password`.
 */
export type AuthForm =
  | "bearer"
  | "x-api-key"
  | "api-key"
  | "x-goog-api-key"
  | "x-key"
  | "key"
  | "basic"
  | "service-account"
  | "sigv4"
  | "none";

/** Paths of generation in place of the dialect's own, below the base URL; `{model}` stands for the model's name as one step. */
export type GenerationPaths = { whole: string; stream: string };

/**
 * Which models of a vendor this gateway offers. `catalog`: those of the catalog that name it in a route. `discover`: what its own
 * model list says, asked at start and now and then. `any`: whatever name the caller writes behind the prefix. A list: these.
 */
type VendorModels = "catalog" | "discover" | "any" | readonly string[];

/** What an operator may say of how a vendor draws; what is left out is its image row's (vendors/images/rows.ts). */
export type DrawingSettings = {
  /** The image row whose protocol it speaks, for vendors that have none of their own. */
  wire?: string;
  ratios?: readonly string[];
  takesSource?: boolean;
  /** For ComfyUI: the graph to run, in its API form, with `{{prompt}}` and other placeholders. */
  workflow?: Readonly<Record<string, unknown>>;
};

/** A request on its way upstream: all that leaves the process. */
export type UpstreamRequest = {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
  /** What the signal follows, where there is more than a signal. */
  abort?: Abort;
};

/** Who serves models upstream: a row of data (design 1). `id` is the prefix of its model IDs. */
export type Vendor = {
  id: string;
  name: string;
  dialect: UpstreamDialectName;
  /** What the vendor's own SDK takes as base URL (contract 2), without a slash at the end. */
  baseUrl: string;
  auth: AuthForm;
  /** Environment variable that switches the vendor on. */
  env?: string;
  /** The key itself, once read from environment or file. Never logged, never shown. */
  apiKey?: string;
  /** All its keys, where it has more than one; `apiKey` is the first of them. They are used in turn (vendors/keys.ts). */
  apiKeys?: readonly string[];
  /** What `sigv4` needs beside the key, which is then the access key's id. Never logged, never shown. */
  credentials?: Readonly<{ secretAccessKey?: string; sessionToken?: string }>;
  /** The region that `sigv4` signs for. */
  region?: string;
  /** Fixed headers, such as a dialect version. */
  headers?: Readonly<Record<string, string>>;
  /** Query string of every call, without its question mark (Azure's api-version). */
  query?: string;
  /** The http proxy through which it is called, where the operator wants one (reliability 2 #21). */
  proxy?: string;
  paths?: GenerationPaths;
  /** How streamed replies are framed, where that is not SSE. */
  framing?: "aws-event-stream";
  models: VendorModels;
  /** The tag of models that it serves though its own list may lack them. */
  unlistedTag?: string;
  /** The vendor whose models it serves for it, under that one's names: what the catalog knows of those, their prices aside, it knows of these. */
  modelsOf?: string;
  quirks: Quirks;
  /** An upstream inside this process: answers as a server on the network would. */
  serve?: (request: UpstreamRequest) => Promise<Response | Answer>;
  /** Everything it serves is of this kind; absent: chat, and what rows of the catalog say. */
  modality?: "image";
  drawing?: DrawingSettings;
  /** Draws images inside this process; other vendors' image wires are found by their row. */
  images?: ImageUpstream;
};

/** Another way to switch a vendor on: its variable, how the key goes out, and the variables of what belongs to it, `?` behind those that may lack. */
export type KeyWay = {
  env: string;
  auth: AuthForm;
  credentials?: Readonly<Record<keyof NonNullable<Vendor["credentials"]>, string>>;
};

/**
 * A vendor this gateway knows of (contract 2), before any key is at hand. `{NAME}` in `baseUrl`, `region` and `query` stands for a
 * variable of the environment: a base URL or region with one missing leaves the vendor off, a query with one missing is left out.
 */
export type VendorRow = Omit<Vendor, "apiKey" | "apiKeys" | "credentials" | "proxy" | "serve" | "images"> & {
  /** Tried in order when the variable `env` is not there. */
  otherKeys?: readonly KeyWay[];
  /** A query of variables that fits this is none for this address, and is left out. */
  otherQuery?: RegExp;
  /** Values of variables that are not there. */
  defaults?: Readonly<Record<string, string>>;
  /** Variables that are read where another one is not there, by that one's name. */
  standIns?: Readonly<Record<string, string>>;
  /** Base URLs for one value of a variable, written `NAME=value`. */
  baseUrls?: Readonly<Record<string, string>>;
  /** A model server on this machine: found by asking its usual port, not by a key. */
  local?: boolean;
  /** The base URL of newer releases of a local server, which listen at another port; asked before `baseUrl`. */
  newerUrl?: string;
};
