import { Type } from "@sinclair/typebox";
import { late, Open } from "./open.ts";

/** Answer of the liveness and readiness checks (contract 3). */
export const HealthReply = late(() =>
  Open({ status: Type.Union([Type.Literal("ok"), Type.Literal("unavailable")]) }, { title: "Health" }),
);
