/** No connection came about (name, refusal, time, TLS): nothing of a request was read, so nothing ran. `code`: the system's or the library's word for it. */
export class ConnectFailed extends Error {
  override readonly name = "ConnectFailed";

  constructor(
    readonly code: string,
    options?: ErrorOptions,
  ) {
    super(`No connection could be made (${code}).`, options);
  }
}

/** A connection was there, and broke: after the request went out, so that nobody can know whether the vendor worked on it (reliability 6.2), or just before. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}
