import { countText } from "./count-text.ts";
import { countPdfPages } from "./pdf-pages.ts";
import type { Counts, GroupCount, Work } from "./work.ts";

declare const self: { onmessage: ((event: { data: Work }) => void) | null };

function countGroup(texts: readonly string[]): GroupCount {
  const group: GroupCount = { tokens: 0, characters: 0, wide: 0 };
  for (const text of texts) {
    const { tokens, wide } = countText(text);
    group.tokens += tokens;
    group.wide += wide;
    group.characters += text.length;
  }
  return group;
}

// A thread of its own: the vocabulary takes 0.3 s and 100 MB to load, and long texts take longer than the event loop may stand still
// (runtime.md 5). One piece of work at a time; a fault ends the thread, and the other side starts a new one.
self.onmessage = ({ data }) => {
  let pages = 0;
  for (const pdf of data.pdfs) pages += countPdfPages(pdf);
  const counts: Counts = { groups: data.groups.map(countGroup), pages };
  postMessage(counts);
};
