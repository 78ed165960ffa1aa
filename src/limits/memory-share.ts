import { totalmem } from "node:os";
import { readHeld, readPrivate } from "../lib/resident.ts";
import type { AdmissionParts } from "./admission.ts";

/** What may be used of this machine, bytes: its container's bound where there is one, else what is there. */
export function memoryBound(constrained: number | undefined, total: number): number {
  return constrained !== undefined && constrained > 0 && constrained < total ? constrained : total;
}

/**
 * What each of so many processes of one gateway may use, and what it uses. The program's file, a good part of what each has resident, is there once for
 * all of them, and the system takes it back where it needs the memory.
 */
export function memoryShare(processes: number): Pick<AdmissionParts, "memoryBytes" | "readMemory"> {
  return {
    memoryBytes: memoryBound(process.constrainedMemory(), totalmem()) / processes,
    readMemory: processes > 1 ? readPrivate : readHeld,
  };
}
