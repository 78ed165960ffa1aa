import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { orderWays } from "../../src/relay/routes/routes.ts";
import { nameConversation as nameOf } from "../../src/relay/routes/session.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

const vendor = (id: string, keys = 1): Vendor => ({
  ...{ id, name: id, dialect: "chat", baseUrl: `http://${id}.test`, auth: "bearer", models: "any", quirks: {} },
  ...(keys > 1 && { apiKeys: Array.from({ length: keys }, (_, at) => `key-${at}`) }),
  apiKey: "key-0",
});
const VENDORS = new Map([vendor("a"), vendor("b"), vendor("c"), vendor("many", 3)].map((each) => [each.id, each]));
const find = (id: string) => VENDORS.get(id);
const names = (routes: { vendor: string; model: string; weight?: number }[], conversation: string) =>
  orderWays({ routes, vendor: find, conversation: () => conversation }).map(({ way }) => `${way.vendor}#${way.key}`);

describe("the order of ways", () => {
  test("routes without weights stand as they are written, and nothing is asked of the conversation", () => {
    const routes = ["b", "a", "c"].map((id) => ({ vendor: id, model: "m" }));
    const conversation = () => {
      throw new Error("asked");
    };
    const ordered = orderWays({ routes, vendor: find, conversation });
    expect(ordered.map(({ way }) => way.vendor)).toEqual(["b", "a", "c"]);
  });

  test("a vendor that is switched off is no way", () => {
    expect(
      names(
        [
          { vendor: "gone", model: "m" },
          { vendor: "a", model: "m" },
        ],
        "x",
      ),
    ).toEqual(["a#0"]);
  });

  test("weights are kept over conversations: three to one", () => {
    const routes = [
      { vendor: "a", model: "m", weight: 3 },
      { vendor: "b", model: "m" },
    ];
    const firsts = Array.from({ length: 4_000 }, (_, at) => names(routes, `talk ${at}`)[0]);
    const share = firsts.filter((name) => name === "a#0").length / firsts.length;
    expect(share).toBeGreaterThan(0.72);
    expect(share).toBeLessThan(0.78);
  });

  test("keys share evenly, and the routes' order wins over keys", () => {
    const routes = [
      { vendor: "many", model: "m" },
      { vendor: "a", model: "m" },
    ];
    const orders = Array.from({ length: 3_000 }, (_, at) => names(routes, `talk ${at}`));
    expect(orders.every((order) => order.length === 4 && order[3] === "a#0")).toBe(true);
    for (const key of ["many#0", "many#1", "many#2"]) {
      const share = orders.filter(([first]) => first === key).length / orders.length;
      expect(Math.abs(share - 1 / 3)).toBeLessThan(0.04);
    }
  });

  test("a vendor's weight is shared by its keys", () => {
    const routes = [
      { vendor: "many", model: "m", weight: 1 },
      { vendor: "a", model: "m", weight: 1 },
    ];
    const firsts = Array.from({ length: 3_000 }, (_, at) => names(routes, `talk ${at}`)[0]);
    expect(Math.abs(firsts.filter((name) => name === "a#0").length / 3_000 - 0.5)).toBeLessThan(0.05);
  });

  test("a conversation keeps its order, and keeps it without the ways that fall away", () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 9 }), fc.constantFrom("a", "b", "c"), (talk, weight, gone) => {
        const routes = ["a", "b", "c", "many"].map((id) => ({ vendor: id, model: "m", weight }));
        const order = names(routes, talk);
        expect(names(routes, talk)).toEqual(order);
        const rest = names(
          routes.filter((route) => route.vendor !== gone),
          talk,
        );
        expect(rest).toEqual(order.filter((name) => name !== `${gone}#0`));
      }),
    );
  });
});

const NO_HEADERS = new Headers();
const nameConversation = (account: string, body: unknown, headers = NO_HEADERS) => nameOf(account, body, headers);

describe("the name of a conversation", () => {
  const first = { role: "user", content: "Please mend the roof" };
  const later = [first, { role: "assistant", content: "Which?" }, { role: "user", content: "This one" }];

  test("is the same in every later turn, in every dialect, whatever marks have moved", () => {
    const names = [
      { messages: [first] },
      { messages: later },
      { messages: [{ role: "system", content: `It is ${Math.random()}` }, ...later] },
      { messages: [{ role: "user", content: [{ type: "text", text: first.content, cache_control: {} }] }] },
      { input: [first] },
      { input: first.content },
    ].map((body) => nameConversation("acc", body));
    expect(new Set(names).size).toBe(1);
  });

  test("is another for another account and another beginning", () => {
    const own = nameConversation("acc", { messages: [first] });
    expect(nameConversation("other", { messages: [first] })).not.toBe(own);
    expect(nameConversation("acc", { messages: [{ role: "user", content: "Please mend the wall" }] })).not.toBe(own);
  });

  test("is what its client names for the cache, whatever is said", () => {
    const named = (key: unknown, content: string) =>
      nameConversation("acc", { prompt_cache_key: key, messages: [{ role: "user", content }] });
    expect(named("one", "Hello")).toBe(named("one", "Something else"));
    expect(named("one", "Hello")).not.toBe(named("two", "Hello"));
    expect(nameConversation("other", { prompt_cache_key: "one" })).not.toBe(named("one", "Hello"));
    const told = new Headers({ "x-claude-code-session-id": "one" });
    expect(nameConversation("acc", { messages: [first] }, told)).toBe(named("one", "Hello"));
    for (const none of ["", null, 7]) {
      expect(named(none, "Hello")).toBe(nameConversation("acc", { messages: [{ role: "user", content: "Hello" }] }));
    }
  });

  test("is another for another user or session that begins alike", () => {
    const instructions = "Read the project's rules. ".repeat(200);
    const messages = [{ role: "user", content: instructions }];
    const names = [
      { messages },
      { messages, metadata: { user_id: "user_1_session_1" } },
      { messages, metadata: { user_id: "user_1_session_2" } },
      { messages, user: "ann", metadata: { project: "roof" } },
    ].map((body) => nameConversation("acc", body));
    expect(new Set(names).size).toBe(4);
    expect(nameConversation("acc", { messages: [...messages, ...later], user: "ann" })).toBe(names[3]!);
  });

  test("is made of any body there can be", () => {
    fc.assert(fc.property(fc.jsonValue(), (body) => expect(nameConversation("a", body).startsWith("a\n")).toBe(true)));
    expect(nameConversation("a", { messages: [{ role: "user", content: "x".repeat(1e6) }] }).length).toBeLessThan(
      3_000,
    );
  });
});
