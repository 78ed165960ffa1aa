import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createAddressReader, parseProxyRange } from "../../src/http/caller/address.ts";

/** What is read of a request that comes from `peer` with these hops before it. */
function read(peer: string | undefined, forwarded: string | undefined, trusted: string[] = []): string | undefined {
  const source = { requestIP: () => (peer === undefined ? null : { address: peer, family: "IPv4" as const, port: 1 }) };
  const headers = forwarded === undefined ? undefined : { "x-forwarded-for": forwarded };
  const request = new Request("http://localhost/", headers && { headers });
  return createAddressReader(() => source, trusted)(request)?.name;
}

describe("a client's address (reliability 4)", () => {
  test.each([
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::9", "2001:db8:1:2::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ])("of a connection from %s", (peer, name) => {
    expect(read(peer, undefined)).toBe(name);
  });

  test("none is known of a call inside the process, and of a socket without one", () => {
    expect(read(undefined, undefined)).toBeUndefined();
    expect(read("", undefined)).toBeUndefined();
    expect(createAddressReader(() => null, [])(new Request("http://localhost/"))).toBeUndefined();
  });

  test("networks: IPv4 by /24, IPv6 by /48", () => {
    const network = (address: string) =>
      createAddressReader(
        () => ({ requestIP: () => ({ address, family: "IPv4", port: 1 }) }),
        [],
      )(new Request("http://localhost/"))?.network;
    expect(network("192.0.2.7")).toBe("192.0.2.0/24");
    expect(network("2001:db8:1:2::9")).toBe("2001:db8:1::/48");
  });

  test.each([
    ["nobody is trusted: what a stranger writes counts for nothing", "198.51.100.1", "192.0.2.1", [], "198.51.100.1"],
    ["the connection is no proxy's", "198.51.100.1", "192.0.2.1", ["10.0.0.0/8"], "198.51.100.1"],
    ["one proxy", "10.0.0.1", "192.0.2.1", ["10.0.0.0/8"], "192.0.2.1"],
    ["a client that writes hops of its own", "10.0.0.1", "8.8.8.8, 192.0.2.1", ["10.0.0.0/8"], "192.0.2.1"],
    ["a client that claims to be a proxy", "10.0.0.1", "8.8.8.8, 10.0.0.9, 192.0.2.1", ["10.0.0.0/8"], "192.0.2.1"],
    ["two proxies", "10.0.0.1", "192.0.2.1, 10.0.0.2", ["10.0.0.0/8"], "192.0.2.1"],
    ["proxies all the way: the left-most", "10.0.0.1", "10.0.0.3, 10.0.0.2", ["10.0.0.0/8"], "10.0.0.3"],
    ["a proxy that says nothing", "10.0.0.1", undefined, ["10.0.0.0/8"], "10.0.0.1"],
    ["rubbish", "10.0.0.1", "192.0.2.1, unknown", ["10.0.0.0/8"], "10.0.0.1"],
    ["rubbish before an address", "10.0.0.1", "<script>, 192.0.2.1", ["10.0.0.1"], "192.0.2.1"],
    ["ports", "10.0.0.1", "192.0.2.1:5555", ["10.0.0.1"], "192.0.2.1"],
    ["brackets and a port", "10.0.0.1", "[2001:db8::1]:443", ["10.0.0.1"], "2001:db8:0:0::/64"],
    ["an IPv4 proxy in IPv6 clothes", "::ffff:10.0.0.1", "192.0.2.1", ["10.0.0.0/8"], "192.0.2.1"],
    ["an IPv6 proxy", "fd00::1", "192.0.2.1", ["fd00::/8"], "192.0.2.1"],
    ["an address written oddly", "10.0.0.1", "0x7f.1", ["10.0.0.1"], "10.0.0.1"],
  ] as const)("%s", (_name, peer, forwarded, trusted, name) => {
    expect(read(peer, forwarded, [...trusted])).toBe(name);
  });

  test("whatever is written there, the right-most stranger is who counts (random)", () => {
    const stranger = fc.ipV4().filter((address) => !address.startsWith("10."));
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.ipV4(), fc.string()), { maxLength: 5 }), stranger, (before, client) => {
        const header = [...before, client].join(", ").replace(/[^\x20-\x7e]/g, "?");
        expect(read("10.1.1.1", header, ["10.0.0.0/8"])).toBe(client);
      }),
    );
  });

  test("a flood of hops is looked at from the right, and not to its end", () => {
    const hops = `192.0.2.1, ${Array.from({ length: 2_000 }, () => "10.0.0.2").join(",")}`;
    expect(read("10.0.0.1", hops, ["10.0.0.0/8"])).toBe("10.0.0.2");
  });
});

describe("this machine's own programs, which nothing of this bounds", () => {
  const isLocal = (peer: string, headers: Record<string, string>) =>
    createAddressReader(
      () => ({ requestIP: () => ({ address: peer }) }),
      [],
    )(new Request("http://localhost/", { headers }))?.isLocal === true;

  test.each([
    ["127.0.0.1", { host: "127.0.0.1:4600" }],
    ["127.0.0.1", { host: "LocalHost" }],
    ["::ffff:127.0.0.1", { host: "localhost:4600" }],
    ["::1", { host: "[::1]:4600" }],
  ])("from %s with %j", (peer, headers) => expect(isLocal(peer, headers)).toBe(true));

  test.each([
    ["a stranger who writes this machine's name", "192.0.2.7", { host: "localhost:4600" }],
    ["a neighbour whose address only looks like it", "1.127.0.0", { host: "127.0.0.1" }],
    ["a proxy on this machine that writes no header of its own", "127.0.0.1", { host: "gateway.example.com" }],
    ["a name that begins like this machine's", "127.0.0.1", { host: "localhost.example.com" }],
    ["a proxy that says for whom", "127.0.0.1", { host: "localhost", "x-forwarded-for": "192.0.2.7" }],
    ["a proxy that says who it is", "127.0.0.1", { host: "localhost", via: "1.1 proxy" }],
    ["a proxy with a header of its own", "127.0.0.1", { host: "localhost", "x-real-ip": "192.0.2.7" }],
    ["a proxy by the standard", "127.0.0.1", { host: "localhost", forwarded: "for=192.0.2.7" }],
  ])("not %s", (_name, peer, headers) => expect(isLocal(peer, headers)).toBe(false));
});

describe("trusted proxies of the configuration", () => {
  test.each(["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::1", "fd00::/8", "2001:db8::/128"])("%s", (text) => {
    expect(parseProxyRange(text)).toBeDefined();
  });
  test.each([
    "",
    "proxy",
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "fd00::/129",
    "10.1",
    "0x0a.0.0.1",
    "1.2.3.4/-1",
    "010.0.0.1",
  ])("not %p", (text) => {
    expect(parseProxyRange(text)).toBeUndefined();
    expect(() => createAddressReader(() => null, [text])).toThrow(TypeError);
  });
});
