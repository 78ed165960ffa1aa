import { expect, test } from "bun:test";
import { send, type Wire } from "./crossing.ts";

const film = (url: unknown) => ({
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "What?" },
        { type: "video_url", video_url: url },
      ],
    },
  ],
});
const partsOf = (body: Wire) => (body["contents"] as { parts: Wire[] }[])[0]?.parts;

test.each<[string, unknown, Wire]>([
  [
    "bytes",
    { url: "data:video/mp4;base64,AAAAIGZ0eXBpc29t" },
    { inlineData: { mimeType: "video/mp4", data: "AAAAIGZ0eXBpc29t" } },
  ],
  [
    "bytes in the short form",
    "data:video/webm;base64,GkXfo59C",
    { inlineData: { mimeType: "video/webm", data: "GkXfo59C" } },
  ],
  [
    "YouTube",
    { url: "https://www.youtube.com/watch?v=x" },
    { fileData: { mimeType: "video/mp4", fileUri: "https://www.youtube.com/watch?v=x" } },
  ],
])("a film that a chat client sends reaches Gemini: %s", (_what, url, part) => {
  const { body, dropped } = send({ from: "chat", to: "gemini" }, film(url));
  expect([partsOf(body), dropped]).toEqual([[{ text: "What?" }, part], []]);
});

test("one at an address that it does not fetch is named, and so is every film to vendors of other dialects", () => {
  const away = send({ from: "chat", to: "gemini" }, film({ url: "https://a.example/b.mp4" }));
  expect([partsOf(away.body), away.dropped]).toEqual([[{ text: "What?" }], ["messages[0].content[1]"]]);
  for (const to of ["messages", "responses"] as const) {
    const bytes = film({ url: "data:video/mp4;base64,AAAAIGZ0eXBpc29t" });
    expect(send({ from: "chat", to }, bytes).dropped).toEqual(["messages[0].content[1]"]);
  }
  // Who speaks the client's dialect is told it as it is.
  const own = film({ url: "https://a.example/b.mp4" });
  expect(send({ from: "chat", to: "chat" }, own).body["messages"]).toEqual(own.messages);
});
