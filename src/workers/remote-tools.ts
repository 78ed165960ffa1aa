import type { RunWebTool, WebToolCall } from "../relay/run-web-tool.ts";
import type { Link } from "./link.ts";

/** Web tools as a worker has them: run by the authority, with its engines, allowances and meter. Rejects only when the call's signal is aborted. */
export function createRemoteTools(link: Link): RunWebTool {
  let calls = 0;
  return async ({ signal, ...order }: WebToolCall) => {
    signal.throwIfAborted();
    const call = ++calls;
    const end = () => link.note("endTool", call);
    signal.addEventListener("abort", end, { once: true });
    try {
      return await link.call("runTool", { ...order, call });
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener("abort", end);
    }
  };
}
