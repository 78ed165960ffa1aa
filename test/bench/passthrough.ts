/** The baseline of all measurements: the least that a gateway on Bun can do. It takes the vendor's port from a header and passes bodies on. */
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  reusePort: false,
  async fetch(request) {
    // A second client's question, beside the load.
    if (request.method === "GET") return new Response("ok");
    const port = request.headers.get("x-bench-port");
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: await request.bytes(),
      signal: request.signal,
    });
    const type = response.headers.get("content-type") ?? "application/json";
    return new Response(response.body, { status: response.status, headers: { "content-type": type } });
  },
});

console.log(JSON.stringify({ port: server.port }));
