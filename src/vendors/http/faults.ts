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

/** The connection broke after the request went out: whether the vendor worked on it cannot be known (reliability 6.2). */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}
