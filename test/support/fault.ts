import { GatewayError } from "../../src/canon/errors.ts";
import { within } from "./wait.ts";

/** The GatewayError that a call throws. Throws whatever else that throws, and where it throws nothing. */
export function faultOf(run: () => unknown): GatewayError {
  try {
    run();
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}

/** The GatewayError that `work` rejects with. Rejects with whatever else that is, and where `work` resolves. */
export async function rejectionOf(work: Promise<unknown>): Promise<GatewayError> {
  try {
    await within(work, "a refusal");
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was refused");
}
