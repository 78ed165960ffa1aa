import { Channel, type ChannelParts } from "./channel.ts";
import type { AuthorityCalls, AuthorityNotes, WorkerCalls, WorkerNotes } from "./messages.ts";

/** A worker's way to its authority. */
export type Link = Channel<AuthorityCalls, AuthorityNotes, WorkerCalls, WorkerNotes>;

/** Opens it over a worker's end of the connection. */
export const openLink = (parts: ChannelParts<WorkerCalls, WorkerNotes>): Link =>
  new Channel<AuthorityCalls, AuthorityNotes, WorkerCalls, WorkerNotes>(parts);
