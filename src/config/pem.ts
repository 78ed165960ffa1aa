import { readFileSync } from "node:fs";
import type { Reader } from "./values.ts";

/** A reader that turns the path of a PEM file into its text; undefined where it cannot be read or `check` throws, since it is not of this kind. */
const readPem = (kind: string, check: (pem: string) => unknown): Reader<string> => ({
  what: `the path of ${kind} in PEM that can be read`,
  from(path) {
    try {
      const pem = readFileSync(path, "utf8");
      check(pem);
      return pem;
    } catch {
      return undefined;
    }
  },
});

/** Loaded only when somebody names a file: it makes every start slower. */
const nodeCrypto = () => process.getBuiltinModule("node:crypto");

/** The path of a certificate as its text; of several in the file only the first is checked. */
export const readCertificate = readPem("a certificate", (pem) => new (nodeCrypto().X509Certificate)(pem));
/** The path of a private key as its text. */
export const readPrivateKey = readPem("a private key without a password", (pem) => nodeCrypto().createPrivateKey(pem));
