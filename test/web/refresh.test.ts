import { expect, test } from "bun:test";
import { readMetadata } from "../../src/web/extract/metadata.ts";
import { countWork } from "../support/wait.ts";

const page = (content: string) => ({
  name: "html",
  attributes: {},
  children: [{ name: "meta", attributes: { "http-equiv": "refresh", content }, children: [] }],
});

test("an address of many blanks to which a page leads on costs nobody any time", () => {
  const work = countWork();
  expect(readMetadata(page(`0;a${" ".repeat(200_000)}b\nc`)).next).toBeUndefined();
  expect(work()).toBeLessThan(500);
  expect(readMetadata(page("0; url=/a")).next).toBe("/a");
});
