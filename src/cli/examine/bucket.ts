import type { Config } from "../../config/load.ts";
import { BucketFiles } from "../../jobs/files-s3.ts";
import { errorCode } from "../../lib/error-code.ts";
import { type Finding, fault, ok } from "../findings.ts";

const CHECK = "images";
/** How long the bucket may take to answer, ms. */
const ANSWER_MS = 5_000;

/** What a bucket's service, or the connection to it, calls its trouble: `NoSuchBucket`, `SignatureDoesNotMatch`, `ConnectionRefused`. */
const troubleOf = (thrown: unknown) => errorCode(thrown) || "it does not answer";

/**
 * Whether the bucket for images answers to its keys, where there is one: each image drawn for another one is lost, and its vendor is paid. Its
 * names are listed, as the server does; nothing is written.
 */
export async function examineBucket({ images: { bucket: settings } }: Pick<Config, "images">): Promise<Finding[]> {
  if (!settings) return [];
  const place = `the bucket ${settings.bucket}${settings.endpoint ? ` at ${settings.endpoint}` : ""}`;
  try {
    await new BucketFiles(settings, ANSWER_MS).batches().next();
    return [ok(CHECK, `${place} answers`)];
  } catch (thrown) {
    const advice =
      "check images.storage in the configuration file, and what its key may do: list, read, write and delete";
    return [fault(CHECK, `${place} cannot be used: ${troubleOf(thrown)}`, advice)];
  }
}
