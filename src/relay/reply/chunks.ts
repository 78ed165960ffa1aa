/** Told of what the next piece of a stream is. What is told must not throw. */
export type PieceTaker = { onPiece(text: string): void; onOver(): void; onFailure(thrown: unknown): void };

/**
 * A stream's text piece by piece. `isLast`: the piece that was given is the last one, where that is known. `nextTo`: `next` without a promise, which
 * thousands of streams would each make anew for every piece. `taker` is told later, never by this call itself: who takes a piece asks for the next one.
 */
export type Chunks = AsyncIterator<string, undefined> & {
  readonly isLast?: boolean;
  nextTo?(taker: PieceTaker): void;
};

/** Has the next piece told to `taker`, by the way that the stream has. */
export function nextTo(chunks: Chunks, taker: PieceTaker): void {
  if (chunks.nextTo) chunks.nextTo(taker);
  else tellLater(chunks.next(), taker);
}

/** Tells `taker` of a piece that is being made. */
export function tellLater(piece: Promise<IteratorResult<string, undefined>>, taker: PieceTaker): void {
  piece.then(
    ({ done, value }) => (done ? taker.onOver() : taker.onPiece(value)),
    (thrown: unknown) => taker.onFailure(thrown),
  );
}
