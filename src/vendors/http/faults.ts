/** No connection came about (name, refusal, time, TLS): nothing of a request was read, so nothing ran. `code`: the system's or the library's word for it. */
export class ConnectFailed extends Error {
  override readonly name = "ConnectFailed";

  constructor(
    readonly code: string,
    options: ErrorOptions,
  ) {
    super(`No connection could be made (${code}).`, options);
  }
}

/** A connection was there, and broke: after the request went out, so that nobody can know whether the vendor worked on it (reliability 6.2), or just before. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** No connection came about since this process may open no further file: of the vendor it tells nothing. `cause`: what the runtime says of it. */
export class NoFileLeft extends Error {
  override readonly name = "NoFileLeft";

  constructor(options: ErrorOptions) {
    super("No connection could be made: as many files are open as this process may open.", options);
  }
}
