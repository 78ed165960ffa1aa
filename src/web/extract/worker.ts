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

// A thread of its own: a long page takes longer than the event loop may stand still, and a hostile one for ever. One page at a time; any
// other fault ends the thread, and the other side starts a new one.
self.onmessage = ({ data }) => {
  void work(data).then((done) => postMessage(done));
};
