import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { networkInterfaces } from "node:os";
import { isOwnAddress, isPublicAddress } from "../../src/web/safe-fetch/address.ts";
import { FETCH_FAULTS, type FetchFault, type FetchFaultCode } from "../../src/web/safe-fetch/fault.ts";
import { manualClock } from "../support/clock.ts";
import { redirect, startUpstream, type Upstream } from "../support/upstream.ts";
import { type Canary, faultOf, guarded, PLAIN, startCanary } from "./fetch-lab.ts";
import { DIRECT, INSIDE, OUTSIDE, PORTS } from "./hostile-urls.ts";

let canary: Canary;
let stepping: Upstream;
let asked: string[];
let fetching: ReturnType<typeof spyOn<typeof globalThis, "fetch">>;

beforeAll(() => {
  canary = startCanary();
  stepping = startUpstream();
});
afterAll(() => {
  canary.close();
  stepping.close();
});
beforeEach(() => {
  asked = [];
  const real = globalThis.fetch;
  fetching = spyOn(globalThis, "fetch").mockImplementation(((url: string, init?: RequestInit) => {
    asked.push(url);
    return real(url, init);
  }) as typeof fetch);
});
afterEach(() => {
  fetching.mockRestore();
  stepping.reset();
});

const here = (url: string) => url.replaceAll(/:(0?)P\b/g, `:$1${canary.port}`);

/** The guard with the canary's port open everywhere, so that nothing but the host can be refused. */
const openPort = (more: Parameters<typeof guarded>[0] = {}) =>
  guarded({ ports: new Set([canary.port]), resolve: async () => ["127.0.0.1"], ...more });

/** Only names that look like anybody's reach a resolver. */
const resolveStrangers = async (host: string) => {
  if (!host.endsWith(".example")) throw new Error(`must not be asked for ${host}`);
  return ["127.0.0.1"];
};

/** Lets no request out: all are answered here, and noted. */
function answerAll(answer: () => Response): void {
  fetching.mockImplementation((async (url: string) => {
    asked.push(url);
    return answer();
  }) as unknown as typeof fetch);
}

describe("hostile URLs reach nothing", () => {
  test("there are enough of them", () => {
    expect(new Set(DIRECT).size).toBeGreaterThanOrEqual(150);
    expect(DIRECT.length + PORTS.length + INSIDE.length).toBeGreaterThanOrEqual(220);
  });

  test("the canary sings when somebody comes: an allowed host is let through", async () => {
    const before = canary.connections;
    const safeFetch = openPort({ allowHosts: [`127.0.0.1:${canary.port}`] });
    const got = await safeFetch(`http://127.0.0.1:${canary.port}/`, PLAIN);
    expect(Buffer.from(got.body).toString()).toBe("secret");
    expect(canary.connections).toBe(before + 1);
  });

  test.each(DIRECT.map((url) => [url]))("%j", async (url) => {
    const before = canary.connections;
    const fault = await faultOf(openPort({ resolve: resolveStrangers })(here(url), PLAIN));
    expect(["invalid_url", "blocked"]).toContain(fault.code);
    expect(asked).toEqual([]);
    expect(canary.connections).toBe(before);
  });

  test("every one of them behind a redirect", async () => {
    const before = canary.connections;
    const allowHosts = [new URL(stepping.url).host];
    let refused = 0;
    for (const url of DIRECT) {
      asked.length = 0;
      stepping.reset();
      // A header holds no control characters and no characters beyond ASCII.
      const location = here(url).replaceAll(/[^\x21-\x7e]/gu, (character) => encodeURIComponent(character));
      stepping.always("/", redirect(location === "" ? "http://" : location));
      const ended = await openPort({ allowHosts })(`${stepping.url}/`, PLAIN).catch((fault: FetchFault) => fault.code);
      // What is relative to the page it stands on leads back to that page's server, which knows no other path.
      const outcome = typeof ended === "string" ? FETCH_FAULTS.includes(ended as FetchFaultCode) : ended.status === 418;
      expect([url, outcome]).toEqual([url, true]);
      expect([url, asked.filter((each) => !each.startsWith(`${stepping.url}/`))]).toEqual([url, []]);
      refused += typeof ended === "string" ? 1 : 0;
    }
    expect(refused).toBeGreaterThanOrEqual(150);
    expect(canary.connections).toBe(before);
  });

  test.each([301, 302, 303, 307, 308])("a redirect inward with status %d, by address and by name", async (status) => {
    const before = canary.connections;
    const allowHosts = [new URL(stepping.url).host];
    for (const place of [`http://127.0.0.1:${canary.port}/`, `http://inward.example:${canary.port}/`]) {
      stepping.always("/", redirect(place, status));
      expect((await faultOf(openPort({ allowHosts })(`${stepping.url}/`, PLAIN))).code).toBe("blocked");
    }
    expect(canary.connections).toBe(before);
  });

  test.each(PORTS)("port %d of a public host", async (port) => {
    const fault = await faultOf(guarded({ resolve: async () => ["8.8.8.8"] })(`http://public.example:${port}/`, PLAIN));
    expect(fault.code).toBe("blocked");
    expect(asked).toEqual([]);
  });

  test.each(INSIDE)("a name that resolves to %j, alone and behind a public address", async (address) => {
    const before = canary.connections;
    for (const answer of [[address], ["8.8.8.8", address], [address, "8.8.8.8"]]) {
      const fault = await faultOf(openPort({ resolve: async () => answer })(here("http://evil.example:P/"), PLAIN));
      expect(fault.code).toBe("blocked");
      // What the name leads to inside is nobody's business outside.
      if (address !== "") expect(fault.message).not.toContain(address);
    }
    expect(isPublicAddress(address)).toBe(false);
    expect(asked).toEqual([]);
    expect(canary.connections).toBe(before);
  });

  test.each(["user:pass@", "user@", ":pass@", "%00@"])("credentials before a public host: %s", async (who) => {
    answerAll(() => new Response("fine"));
    const safeFetch = guarded({ resolve: async () => ["8.8.8.8"], allowHosts: ["open.example"] });
    for (const host of ["public.example", "open.example"]) {
      expect((await faultOf(safeFetch(`http://${who}${host}/`, PLAIN))).code).toBe("invalid_url");
    }
    expect(asked).toEqual([]);
  });

  test("a redirect from https to http", async () => {
    answerAll(() => new Response(null, { status: 302, headers: { location: "http://public.example/" } }));
    const safeFetch = guarded({ resolve: async () => ["8.8.8.8"] });
    expect((await faultOf(safeFetch("https://public.example/", PLAIN))).code).toBe("blocked");
    expect(asked).toEqual(["https://8.8.8.8:443/"]);
  });

  test("addresses of the open internet pass", () => {
    expect(OUTSIDE.filter((address) => !isPublicAddress(address))).toEqual([]);
  });

  test("an address of this machine's own interfaces, be it public", async () => {
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    expect(own.length).toBeGreaterThan(0);
    expect([isOwnAddress("8.8.8.8"), isOwnAddress("2606:4700:4700::1111")]).toEqual([false, false]);
    for (const { address } of own) {
      expect([address, isOwnAddress(address)]).toEqual([address, true]);
      expect(
        (await faultOf(openPort({ resolve: async () => [address] })(here("http://x.example:P/"), PLAIN))).code,
      ).toBe("blocked");
    }
    expect(asked).toEqual([]);
  });
});

describe("a resolver that changes its mind", () => {
  test("is asked once; the connection goes to the address that was checked", async () => {
    const answers = [["93.184.216.34"], ["127.0.0.1"]];
    let questions = 0;
    fetching.mockImplementation((async (url: string, init?: RequestInit) => {
      asked.push(`${url} ${new Headers(init?.headers).get("host")}`);
      return new Response("fine");
    }) as unknown as typeof fetch);
    const safeFetch = openPort({ resolve: async () => answers[questions++] ?? [] });
    const got = await safeFetch(here("http://rebind.example:P/a?b=c#d"), PLAIN);
    expect(Buffer.from(got.body).toString()).toBe("fine");
    expect(asked).toEqual([here("http://93.184.216.34:P/a?b=c rebind.example:P")]);
    expect(questions).toBe(1);
  });

  test("is asked again after a redirect to the same name, and refused then", async () => {
    const answers = [["93.184.216.34"], ["127.0.0.1"]];
    let questions = 0;
    answerAll(() => new Response(null, { status: 302, headers: { location: "/next" } }));
    const safeFetch = openPort({ resolve: async () => answers[questions++] ?? [] });
    expect((await faultOf(safeFetch(here("http://rebind.example:P/"), PLAIN))).code).toBe("blocked");
    expect(asked.length).toBe(1);
    expect(questions).toBe(2);
  });
});

describe("the gateway itself", () => {
  test("its own port is closed on every own address, whatever is allowed", async () => {
    const before = canary.connections;
    const allowHosts = ["127.0.0.1", "127.0.0.0/8", "localhost", "::1", "0.0.0.0", "gate.example", "*.example"];
    const safeFetch = openPort({ allowHosts, ownPort: () => canary.port });
    for (const host of ["127.0.0.1", "127.0.0.9", "localhost", "[::1]", "0.0.0.0", "gate.example", "a.example"]) {
      expect((await faultOf(safeFetch(here(`http://${host}:P/`), PLAIN))).code).toBe("blocked");
    }
    // As IPv6 writes an address of IPv4.
    const mapped = openPort({ allowHosts, ownPort: () => canary.port, resolve: async () => ["::ffff:127.0.0.1"] });
    for (const host of ["[::ffff:127.0.0.1]", "[::ffff:7f00:9]", "gate.example"]) {
      expect((await faultOf(mapped(here(`http://${host}:P/`), PLAIN))).code).toBe("blocked");
    }
    expect(canary.connections).toBe(before);
  });

  test("its public name is refused before anybody is asked for its address", async () => {
    const resolve = () => Promise.reject(new Error("must not be asked"));
    for (const [own, host] of [
      ["gate.example", "gate.example"],
      ["gate.example", "GATE.example."],
      ["dotted.example.", "dotted.example"],
      ["[2a00:1450::5]", "[2a00:1450:0::5]"],
    ]) {
      const safeFetch = openPort({ publicUrl: `https://${own}/gate`, resolve });
      const fault = await faultOf(safeFetch(here(`http://${host}:P/v1/models`), PLAIN));
      expect([fault.code, fault.message]).toEqual(["blocked", "This is the gateway itself."]);
    }
  });
});

test("an address that swallows what is sent is given up for the next one before the time is gone, the last one is not", async () => {
  const clock = manualClock();
  let hungUp = 0;
  fetching.mockImplementation(((url: string, init?: RequestInit) => {
    asked.push(url);
    init?.signal?.addEventListener("abort", () => hungUp++);
    return new Promise(() => undefined);
  }) as typeof fetch);
  const resolve = async () => ["93.184.216.34", "93.184.216.35", "93.184.216.36", "93.184.216.37"];
  const work = faultOf(guarded({ clock, resolve })("http://swallowed.example/", { ...PLAIN, deadlineMs: 60_000 }));
  for (const [at, ms] of [4_000, 4_000, 10_000].entries()) {
    await clock.armed(ms);
    expect(asked).toHaveLength(at + 1);
    await clock.advance(ms);
  }
  expect([(await work).code, hungUp]).toEqual(["timeout", 3]);
  expect(asked).toEqual([4, 5, 6].map((last) => `http://93.184.216.3${last}:80/`));
});

describe("what the operator allows", () => {
  const rows: [rule: string, url: string, open: boolean][] = [
    ["127.0.0.1", "http://127.0.0.1:P/", true],
    ["127.0.0.1", "http://0x7f.1:P/", true],
    ["127.0.0.0/8", "http://127.0.0.1:P/", true],
    ["127.0.0.1:P", "http://127.0.0.1:P/", true],
    ["127.0.0.1:1", "http://127.0.0.1:P/", false],
    ["wiki.example", "http://wiki.example:P/", true],
    ["WIKI.example.", "http://wiki.example:P/", true],
    ["*.wiki.example", "http://a.wiki.example:P/", true],
    ["*.wiki.example", "http://wiki.example:P/", false],
    ["*.wiki.example", "http://evilwiki.example:P/", false],
    ["wiki.example", "http://wiki.example.evil.example:P/", false],
    // What a stranger's name resolves to is not what was allowed.
    ["127.0.0.1", "http://evil.example:P/", false],
    ["10.0.0.0/8", "http://127.0.0.1:P/", false],
    ["localhost", "http://localhost:P/", true],
    ["::ffff:127.0.0.1", "http://127.0.0.1:P/", true],
    ["", "http://127.0.0.1:P/", false],
  ];
  test.each(rows)("%j and %s: %p", async (rule, url, open) => {
    const before = canary.connections;
    const work = openPort({ allowHosts: [here(rule)] })(here(url), PLAIN);
    if (open) expect((await work).status).toBe(200);
    else expect((await faultOf(work)).code).toBe("blocked");
    expect(canary.connections - before).toBe(open ? 1 : 0);
  });

  const longest = ["a", "b", "c"].map((letter) => letter.repeat(63)).join(".");
  test.each<[string, FetchFaultCode]>([
    ["http://name.example/", "unresolved"],
    ["https://name.example/", "unresolved"],
    ["http://name.example:8080/", "unresolved"],
    ["https://name.example:8443/", "unresolved"],
    ["http://name.example:81/", "blocked"],
    ["http://name.example:8081/", "blocked"],
    ["https://name.example:22/", "blocked"],
    ["ftp://name.example/", "invalid_url"],
    ["ws://name.example/", "invalid_url"],
    [`http://${longest}.${"d".repeat(61)}/`, "unresolved"],
    [`http://${longest}.${"d".repeat(62)}/`, "invalid_url"],
  ] as const)("%s: whether its name is asked for", async (url, code) => {
    const resolve = () => Promise.reject(new Error("nobody knows it"));
    expect((await faultOf(guarded({ resolve })(url, PLAIN))).code).toBe(code);
  });

  test("IPv6 rules, with and without a port", async () => {
    const allowHosts = ["[fd00::1]:8080", "fd00::2", "fd01::/16"];
    const safeFetch = guarded({ allowHosts, ports: new Set([80]) });
    answerAll(() => new Response("fine"));
    for (const url of ["http://[fd00::1]:8080/", "http://[fd00::2]:99/", "http://[fd01::9]/"])
      await safeFetch(url, PLAIN);
    expect(asked).toEqual(["http://[fd00::1]:8080/", "http://[fd00::2]:99/", "http://[fd01::9]:80/"]);
    for (const url of ["http://[fd00::1]/", "http://[fd02::9]/"]) {
      expect((await faultOf(safeFetch(url, PLAIN))).code).toBe("blocked");
    }
  });
});
