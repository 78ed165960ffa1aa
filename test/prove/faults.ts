/** What a proof found wrong so far. One list for the whole process: each proof is a program of its own. */
export const faults: string[] = [];

/** Notes the sentence unless it holds. */
export function check(holds: boolean, sentence: string): void {
  if (!holds) faults.push(sentence);
}
