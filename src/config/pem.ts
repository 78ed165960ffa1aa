import { readFileSync } from "node:fs";
import type { Reader } from "./values.ts";

/** A file in PEM, of which `check` throws where it is none of its kind. */
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

/** Loaded where somebody names a file: a start is dearer with it. */
const nodeCrypto = () => process.getBuiltinModule("node:crypto");

/** The path of a certificate, read; of several in its file the first one is looked at. */
export const readCertificate = readPem("a certificate", (pem) => new (nodeCrypto().X509Certificate)(pem));
/** The path of a private key, read. */
export const readPrivateKey = readPem("a private key without a password", (pem) => nodeCrypto().createPrivateKey(pem));
