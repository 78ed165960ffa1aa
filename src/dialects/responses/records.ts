/** One SSE record: its event line says the type, which its data says too. */
export const record = (value: Record<string, unknown> & { type: string }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

/** A comment: this dialect's clients know no ping record. */
export const PING = ": keep-alive\n\n";
