import type { Route } from "../catalog/entry.ts";
import type { ClientDialect, Decoder, ReplyContext, UpstreamDialect } from "../dialects/dialect.ts";
import type { ObjectText } from "../lib/json-text.ts";
import type { Vendor } from "../vendors/vendor.ts";

/** One route being tried: the vendor, its dialect, and the reply's context. */
export type Target = {
  route: Route;
  vendor: Vendor;
  upstream: UpstreamDialect;
  client: ClientDialect;
  context: ReplyContext;
  /** What is asked in place of the client's body: its web tools, which the gateway serves, as functions. Set before the first call. */
  opened?: ObjectText;
};

/** What reads the stream that a target answers with. */
export const decoderOf = ({ upstream, vendor, context }: Target): Decoder =>
  upstream.decoder({
    quirks: vendor.quirks,
    cachesForHour: context.cachesForHour,
    usedCallIds: context.usedCallIds,
  });
