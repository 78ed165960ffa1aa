import { existsSync } from "node:fs";

/** A browser of this machine, for tests that look at pages and pictures; undefined: there is none. */
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
