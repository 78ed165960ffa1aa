import { readPage, UnreadablePage } from "./page.ts";
import type { Done, Work } from "./work.ts";

declare const self: { onmessage: ((event: { data: Work }) => void) | null };

async function work(page: Work): Promise<Done> {
  try {
    return { page: await readPage(page) };
  } catch (thrown) {
    if (!(thrown instanceof UnreadablePage)) throw thrown;
    const { code, message } = thrown;
    return { fault: { code, message } };
  }
}

// This runs in a thread of its own: a long page takes longer than the event loop may stand still, and a hostile one for ever. Pages come one at a time. A
// fault other than UnreadablePage ends the thread, and its owner starts a new one.
self.onmessage = ({ data }) => {
  void work(data).then((done) => postMessage(done));
};
