import { afterEach, describe, expect, spyOn, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import * as fileSystem from "node:fs/promises";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { FolderFiles, type ImageFiles, MemoryFiles, newFileName, PART_MS } from "../../src/jobs/files.ts";
import { BucketFiles } from "../../src/jobs/files-s3.ts";
import { JobStore } from "../../src/jobs/store.ts";
import { Sweeper } from "../../src/jobs/sweep.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { errorFields } from "../../src/observe/log.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { manualClock, settle } from "../support/clock.ts";
import { until } from "../support/wait.ts";
import { newJob, PNG } from "./lab.ts";

const undo: (() => void)[] = [];
afterEach(() => {
  for (const each of undo.splice(0)) each();
});

const NAME = "0123456789abcdef0123456789abcdef.png";
const newFolder = () => {
  const folder = makeFolder();
  undo.push(() => removeFolder(folder));
  return folder;
};

/** A service that keeps objects as S3 does, as far as it is used here. */
function startBucket(): { url: string; objects: Map<string, { bytes: Uint8Array; at: Date }>; signed: boolean[] } {
  const objects = new Map<string, { bytes: Uint8Array; at: Date }>();
  const signed: boolean[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const url = new URL(request.url);
      signed.push(request.headers.has("authorization") || url.searchParams.has("X-Amz-Signature"));
      const key = decodeURIComponent(url.pathname.replace("/pictures", "").slice(1));
      if (request.method === "PUT") {
        objects.set(key, { bytes: await request.bytes(), at: new Date() });
        return new Response(null, { headers: { etag: '"1"' } });
      }
      if (request.method === "DELETE") {
        objects.delete(key);
        return new Response(null, { status: 204 });
      }
      if (key === "") return listing(url.searchParams);
      const object = objects.get(key);
      if (!object) {
        const text = "<Error><Code>NoSuchKey</Code><Message>There is none.</Message></Error>";
        return new Response(request.method === "HEAD" ? null : text, { status: 404 });
      }
      const headers = {
        "content-length": String(object.bytes.length),
        "last-modified": object.at.toUTCString(),
        etag: '"1"',
      };
      return new Response(request.method === "HEAD" ? null : object.bytes.slice(), { headers });
    },
  });
  const listing = (query: URLSearchParams) => {
    const after = query.get("start-after") ?? "";
    const all = [...objects.keys()].filter((key) => key.startsWith(query.get("prefix") ?? "") && key > after).sort();
    const shown = all.slice(0, 2);
    const contents = shown.map((key) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`).join("");
    const more = all.length > shown.length;
    return new Response(
      `<?xml version="1.0"?><ListBucketResult><Name>pictures</Name><IsTruncated>${more}</IsTruncated>${contents}</ListBucketResult>`,
      { headers: { "content-type": "application/xml" } },
    );
  };
  undo.push(() => void server.stop(true));
  return { url: `http://127.0.0.1:${server.port}`, objects, signed };
}

const bucketAt = (url: string, publicUrl?: string) =>
  new BucketFiles({
    ...{ bucket: "pictures", endpoint: url, region: "eu-central-1", prefix: "sluice/" },
    ...{ accessKeyId: "id", secretAccessKey: "secret", ...(publicUrl && { publicUrl }) },
  });

const KINDS: [string, () => ImageFiles][] = [
  ["a folder", () => new FolderFiles(join(newFolder(), "images"))],
  ["memory", () => new MemoryFiles()],
  ["a bucket", () => bucketAt(startBucket().url)],
];

describe.each(KINDS)("files in %s", (_name, make) => {
  test("what is saved is there, whole, until it is removed", async () => {
    const files = make();
    expect([await files.has(NAME), await files.read(NAME), await files.open(NAME), await files.age(NAME)]).toEqual([
      ...[false, undefined, undefined, undefined],
    ]);
    await files.save(NAME, PNG);
    expect(await files.has(NAME)).toBe(true);
    expect(Buffer.from((await files.read(NAME))!).equals(PNG)).toBe(true);
    const blob = await files.open(NAME);
    expect([blob?.size, blob?.type]).toEqual([PNG.length, "image/png"]);
    expect(Math.abs((await files.age(NAME))!)).toBeLessThan(60_000);
    await files.remove(NAME);
    await files.remove(NAME);
    expect(await files.has(NAME)).toBe(false);
  });

  test("every name is in one batch, and the batches leave nothing out between them", async () => {
    const files = make();
    const names = Array.from({ length: 7 }, () => newFileName("image/webp")).sort();
    for (const name of names) await files.save(name, PNG);
    const seen: string[] = [];
    let end: string | undefined;
    for await (const { from, to, names: some } of files.batches()) {
      if (end !== undefined) expect(from >= end.replace("~", "")).toBe(true);
      for (const name of some) expect(name >= from && name < to).toBe(true);
      seen.push(...some);
      end = to;
    }
    expect(seen.sort()).toEqual(names);
    expect(names.every((name) => end !== undefined && name < end)).toBe(true);
  });
});

describe("a folder of files", () => {
  test("files are the user's own, and nothing half written stays", async () => {
    const folder = join(newFolder(), "images");
    const files = new FolderFiles(folder);
    await files.save(NAME, PNG);
    expect(statSync(join(folder, "01", NAME)).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "01")).mode & 0o077).toBe(0);
    expect(readdirSync(join(folder, "tmp"))).toEqual([]);
  });

  test.skipIf(process.platform !== "linux")(
    "a file is on the disk before it has its name, and so is its name when it is told to be saved",
    async () => {
      const root = newFolder();
      const handle = await open(root);
      const kind = Object.getPrototypeOf(handle) as FileHandle;
      await handle.close();
      const { sync } = kind;
      const synced: string[] = [];
      kind.sync = async function (this: FileHandle) {
        const path = readlinkSync(`/proc/self/fd/${this.fd}`);
        const { size } = statSync(path);
        await sync.call(this);
        // A disk that takes its time.
        await settle();
        const isThere = existsSync(join(root, "01", NAME));
        synced.push(path.endsWith(".part") ? `${size} bytes` : `${path.slice(root.length)} ${isThere}`);
      };
      try {
        await new FolderFiles(root).save(NAME, PNG);
      } finally {
        kind.sync = sync;
      }
      expect(synced).toEqual([" false", " false", `${PNG.length} bytes`, "/01 true"]);
    },
  );

  test("what else lies in it is nobody's to remove", async () => {
    const folder = newFolder();
    const files = new FolderFiles(folder);
    await files.save(NAME, PNG);
    for (const name of ["notes.txt", `${NAME}.bak`]) writeFileSync(join(folder, "01", name), "");
    const seen: string[] = [];
    for await (const { names } of files.batches()) seen.push(...names);
    expect(seen).toEqual([NAME]);
  });

  test("what could not be put in its place takes no room", async () => {
    const folder = join(newFolder(), "images");
    const files = new FolderFiles(folder);
    // A folder that is not empty stands where the file is to be: written whole, and not to be moved there.
    mkdirSync(join(folder, "01", NAME, "x"), { recursive: true });
    await expect(files.save(NAME, PNG)).rejects.toThrow();
    expect(readdirSync(join(folder, "tmp"))).toEqual([]);
  });

  test.each([
    ["room for the largest image", { blocks: 99_999, bfree: 8_192, bavail: 8_192 }, true],
    ["and for its file and folders", { blocks: 99_999, bfree: 8_192, bavail: 8_192, files: 9, ffree: 4 }, true],
    ["no inode for one of them", { blocks: 99_999, bfree: 8_192, bavail: 8_192, files: 9, ffree: 3 }, false],
    ["a block too little", { blocks: 99_999, bfree: 8_191, bavail: 8_191 }, false],
    ["a file system that knows no size", { blocks: 0, bfree: 0, bavail: 0 }, true],
    ["one that tells nothing", new Error("ENOSYS"), true],
  ])("%s: whether an image could be saved", async (_what, told, hasRoom) => {
    const folder = newFolder();
    const asked: unknown[] = [];
    const spy = spyOn(fileSystem, "statfs").mockImplementation(((path: string) => {
      asked.push(path);
      // The folder of the images is not there yet.
      if (path !== folder || told instanceof Error) return Promise.reject(new Error("ENOENT"));
      return Promise.resolve({ bsize: 4_096, files: 0, ffree: 0, ...told });
    }) as never);
    try {
      expect(await new FolderFiles(join(folder, "images")).hasRoom()).toBe(hasRoom);
    } finally {
      spy.mockRestore();
    }
    expect(asked).toEqual([join(folder, "images"), folder]);
  });

  test.each(["../../etc/passwd", "x.png", `${NAME}/..`, "0123456789abcdef0123456789abcdef.svg", ""])(
    "%j is no name",
    async (name) => {
      const files = new FolderFiles(newFolder());
      expect(() => files.remove(name)).toThrow(RangeError);
      await expect(files.save(name, PNG)).rejects.toThrow(RangeError);
      await expect(files.read(name)).rejects.toThrow(RangeError);
    },
  );

  test("folders that are removed under a running server are made again", async () => {
    const folder = join(newFolder(), "images");
    const files = new FolderFiles(folder);
    await files.save(NAME, PNG);
    for (const removed of [folder, join(folder, "01"), join(folder, "tmp")]) {
      rmSync(removed, { recursive: true });
      await files.save(NAME, PNG);
      expect(await files.read(NAME)).toEqual(PNG);
      if (process.platform !== "win32") expect(statSync(folder).mode & 0o777).toBe(0o700);
    }
  });

  test("a link in place of a file is not followed", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "secret"), "secret");
    mkdirSync(join(folder, "01"));
    symlinkSync(join(folder, "secret"), join(folder, "01", NAME));
    const files = new FolderFiles(folder);
    expect([await files.has(NAME), await files.read(NAME)]).toEqual([false, undefined]);
  });
});

describe("a bucket", () => {
  test("every call is signed, and addresses are signed or public", async () => {
    const { url, objects, signed } = startBucket();
    await bucketAt(url).save(NAME, PNG);
    expect([...objects.keys()]).toEqual([`sluice/${NAME}`]);
    expect(signed.every(Boolean)).toBe(true);
    const link = new URL(bucketAt(url).link(NAME));
    expect(link.pathname).toEndWith(`/sluice/${NAME}`);
    expect(link.searchParams.get("X-Amz-Expires")).toBe("86400");
    expect(await (await fetch(link)).bytes()).toEqual(PNG);
    expect(bucketAt(url, "https://pictures.example").link(NAME)).toBe(`https://pictures.example/sluice/${NAME}`);
    expect(link.href).not.toContain("secret");
    const odd = { bucket: "b", endpoint: url, prefix: "of a/50% #1/", accessKeyId: "id", secretAccessKey: "secret" };
    const published = new BucketFiles({ ...odd, publicUrl: "https://pictures.example" }).link(NAME);
    expect(published).toBe(`https://pictures.example/of%20a/50%25%20%231/${NAME}`);
    expect(new URL(new BucketFiles(odd).link(NAME)).pathname).toEndWith(`/of%20a/50%25%20%231/${NAME}`);
  });

  test("its region is its own and not the environment's, which may be there for Bedrock", async () => {
    const program = `
      const { BucketFiles } = await import(${JSON.stringify(join(import.meta.dir, "../../src/jobs/files-s3.ts"))});
      const keys = { bucket: "b", accessKeyId: "id", secretAccessKey: "secret" };
      const regionOf = (more) => new URL(new BucketFiles({ ...keys, ...more }).link("x.png")).searchParams.get("X-Amz-Credential").split("/")[2];
      console.log(JSON.stringify(JSON.parse(process.argv[1]).map(regionOf)));`;
    const places = [
      { endpoint: "https://r2.example" },
      { endpoint: "https://s3.eu-west-1.amazonaws.com" },
      { endpoint: "https://s3.amazonaws.com" },
      { endpoint: "https://s3.dualstack.eu-north-1.amazonaws.com" },
      { endpoint: "https://s3-fips.us-gov-west-1.amazonaws.com" },
      { endpoint: "https://bucket.vpce-1a2b.s3.ca-central-1.vpce.amazonaws.com" },
      { endpoint: "https://r2.example", region: "weur" },
      {},
      { endpoint: "https://s3.us-west-004.backblazeb2.com" },
      { endpoint: "https://pictures.s3.fr-par.scw.cloud/" },
      { endpoint: "https://s3.gra.io.cloud.ovh.net:443" },
      { endpoint: "https://s3.example.com" },
    ];
    const child = Bun.spawn([process.execPath, "-e", program, JSON.stringify(places)], {
      env: { ...process.env, AWS_REGION: "ap-south-1" },
      stdout: "pipe",
    });
    expect(await new Response(child.stdout).json()).toEqual([
      ...["auto", "eu-west-1", "us-east-1"],
      ...["eu-north-1", "us-gov-west-1", "ca-central-1"],
      ...["weur", "ap-south-1"],
      ...["us-west-004", "fr-par", "gra", "auto"],
    ]);
  });

  test("a service that says nothing is not waited for without end", async () => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Promise<Response>(() => {}) });
    undo.push(() => void server.stop(true));
    const settings = { bucket: "pictures", endpoint: `http://127.0.0.1:${server.port}`, region: "auto" };
    const files = new BucketFiles({ ...settings, accessKeyId: "id", secretAccessKey: "secret" }, 50);
    const calls = [files.save(NAME, PNG), files.read(NAME), files.has(NAME), files.age(NAME), files.remove(NAME)];
    const ends = await Promise.allSettled([...calls, files.batches().next()]);
    expect(ends.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => "rejected"));
  });

  test("a service that is busy for a moment is asked again", async () => {
    let refusals = 2;
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        refusals-- > 0
          ? new Response("<Error><Code>SlowDown</Code></Error>", { status: 503 })
          : new Response(null, { headers: { etag: '"1"' } }),
    });
    undo.push(() => void server.stop(true));
    await bucketAt(`http://127.0.0.1:${server.port}`).save(NAME, PNG);
    refusals = 99;
    await expect(bucketAt(`http://127.0.0.1:${server.port}`).save(NAME, PNG)).rejects.toThrow();
    expect(refusals).toBe(96);
  }, 20_000);

  test("what is wrong with it stands in the log, where the client itself only knows that something is", async () => {
    const refused = bucketAt("http://127.0.0.1:1").remove(NAME);
    const fields = errorFields(await refused.catch((thrown: unknown) => thrown));
    expect(fields).toMatchObject({ error: "S3Error: an unexpected error has occurred (ConnectionRefused)" });
  });

  test("what else lies in it is nobody's to remove", async () => {
    const { url, objects } = startBucket();
    const files = bucketAt(url);
    await files.save(NAME, PNG);
    for (const key of ["sluice/notes.txt", `sluice/other/${NAME}`, `sluice/${NAME}.bak`, "backup.tar"]) {
      objects.set(key, { bytes: PNG, at: new Date(0) });
    }
    const seen: string[] = [];
    for await (const { names } of files.batches()) seen.push(...names);
    expect(seen).toEqual([NAME]);
  });
});

describe("what is left behind", () => {
  const DAY_MS = 86_400_000;
  const OLD = new Date(Date.now() - PART_MS - 60_000);

  async function makeWorld(clock: Clock = systemClock) {
    const folder = join(newFolder(), "images");
    const files = new FolderFiles(folder);
    const store = openStore(":memory:");
    undo.push(() => store.close());
    const writer = new Writer(store);
    const jobs = new JobStore(store);
    const told: unknown[] = [];
    const log = { error: (event: string, fields: unknown) => told.push([event, fields]) } as never;
    const sweeper = new Sweeper({ jobs, writer, files, clock, log, keepDays: 90 });
    const age = (name: string) => utimesSync(join(folder, name.slice(0, 2), name), OLD, OLD);
    const finish = async (endedMs: number) => {
      const file = newFileName("image/png");
      const { id } = jobs.insert(newJob({ createdMs: endedMs - 5 }));
      const { attempt } = jobs.claim(id, "b", 1, 1)!;
      jobs.fetch({ id, attempt, boot: "b" }, { file, sha256: Buffer.alloc(32), bytes: PNG.length });
      jobs.succeed({ id, attempt, boot: "b" }, endedMs);
      await files.save(file, PNG);
      age(file);
      return { id, file };
    };
    return { folder, files, jobs, sweeper, told, age, finish, writer };
  }

  test("old files that no job knows go, young ones and those of jobs stay", async () => {
    const { folder, files, sweeper, age, finish, told } = await makeWorld();
    const kept = await finish(Date.now());
    const [orphan, young] = [newFileName("image/png"), newFileName("image/jpeg")];
    await files.save(orphan, PNG);
    await files.save(young, PNG);
    age(orphan);
    const part = join(folder, "tmp", "x.part");
    writeFileSync(part, "half");
    writeFileSync(join(folder, "tmp", "y.part"), "half");
    utimesSync(part, OLD, OLD);
    expect(await sweeper.sweep()).toEqual({ jobs: 0, orphans: 1, missing: 0 });
    expect(await Promise.all([kept.file, young, orphan].map((name) => files.has(name)))).toEqual([true, true, false]);
    expect(readdirSync(join(folder, "tmp"))).toEqual(["y.part"]);
    expect(told).toEqual([]);
  });

  test("jobs older than they are kept go with their files, row first", async () => {
    const { files, jobs, sweeper, finish } = await makeWorld();
    const old = await finish(Date.now() - 91 * DAY_MS);
    const kept = await finish(Date.now() - 89 * DAY_MS);
    const remove = files.remove.bind(files);
    files.remove = (name) => {
      expect(jobs.find(old.id)).toBeUndefined();
      return remove(name);
    };
    expect((await sweeper.sweep()).jobs).toBe(1);
    expect([jobs.find(old.id), await files.has(old.file)]).toEqual([undefined, false]);
    expect([jobs.find(kept.id)?.state, await files.has(kept.file)]).toEqual(["succeeded", true]);
  });

  test("a clock that is set far ahead for a while has nothing forgotten, one that stays there has", async () => {
    const clock = manualClock();
    const { files, sweeper, finish } = await makeWorld(clock);
    const { file } = await finish(clock.now());
    const right = clock.now();
    clock.setWall(right + 100 * DAY_MS);
    expect([(await sweeper.sweep()).jobs, await files.has(file)]).toEqual([0, true]);
    clock.setWall(right);
    await clock.advance(60 * 60_000);
    expect([(await sweeper.sweep()).jobs, await files.has(file)]).toEqual([0, true]);
    clock.setWall(right + 100 * DAY_MS);
    expect((await sweeper.sweep()).jobs).toBe(0);
    await clock.advance(60 * 60_000);
    expect([(await sweeper.sweep()).jobs, await files.has(file)]).toEqual([1, false]);
  });

  test("in a gateway that has run for long, each job is forgotten when its time is over", async () => {
    const clock = manualClock();
    const { sweeper, finish } = await makeWorld(clock);
    await finish(clock.now());
    await clock.advance(89.5 * DAY_MS);
    expect((await sweeper.sweep()).jobs).toBe(0);
    await clock.advance(DAY_MS);
    expect((await sweeper.sweep()).jobs).toBe(1);
    await finish(clock.now());
    clock.setWall(clock.now() + 100 * DAY_MS);
    expect((await sweeper.sweep()).jobs).toBe(0);
  });

  test("a round is made a minute after the start and every hour, behind one that failed too, until there is a stop", async () => {
    const HOUR_MS = 3_600_000;
    const clock = manualClock();
    const { sweeper, jobs, files, told } = await makeWorld(clock);
    files.batches = async function* () {};
    let rounds = 0;
    jobs.endedBefore = () => {
      if (++rounds === 1) throw new Error("not now");
      if (rounds === 3) sweeper.stop();
      return [];
    };
    sweeper.start();
    await clock.advance(59_999);
    expect(rounds).toBe(0);
    await clock.advance(1);
    expect([rounds, told]).toMatchObject([1, [["image-sweep", {}]]]);
    for (const round of [2, 3]) {
      await clock.armed(HOUR_MS);
      await clock.advance(HOUR_MS);
      await until(() => rounds === round, "another round");
    }
    await settle();
    expect(clock.pending).toBe(0);
    sweeper.start();
    sweeper.stop();
    expect(clock.pending).toBe(0);
  });

  test("a finished job whose file is gone is told of, once", async () => {
    const { files, sweeper, finish, told } = await makeWorld();
    const { file } = await finish(Date.now());
    await files.remove(file);
    expect((await sweeper.sweep()).missing).toBe(1);
    expect(told).toEqual([["image-missing", { file }]]);
    const other = await finish(Date.now());
    await files.remove(other.file);
    expect((await sweeper.sweep()).missing).toBe(2);
    expect(told.slice(1)).toEqual([["image-missing", { file: other.file }]]);
  });
});
