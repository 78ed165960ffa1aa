import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { writeTar } from "../../.release/archive.ts";
import { makeInstaller } from "../../.release/release.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";

const SCRIPT = join(import.meta.dir, "../../.release/install.sh");
const TARGET = "linux-x64";
/** Stands for the executable: says its version, as the script asks for it. */
const PROGRAM = '#!/bin/sh\n[ "$1" = --version ] && echo 9.8.7\n';

let folder: string;
let files: Map<string, Uint8Array | string>;
let asked: string[];
let server: ReturnType<typeof Bun.serve>;

beforeEach(() => {
  folder = makeFolder();
  asked = [];
  files = makeRelease(PROGRAM);
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const name = new URL(request.url).pathname.slice(1);
      asked.push(name);
      const file = files.get(name);
      return file === undefined ? new Response("no such file", { status: 404 }) : new Response(file);
    },
  });
});
afterEach(async () => {
  await server.stop(true);
  removeFolder(folder);
});

const sha256 = (bytes: Uint8Array | string) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

/** The files of a release with one target and its musl sister, whose program does not run here. */
function makeRelease(program: string): Map<string, Uint8Array | string> {
  const made = new Map<string, Uint8Array | string>();
  for (const [target, text] of [
    [TARGET, program],
    [`${TARGET}-musl`, "#!/no/such/shell\n"],
  ] as const) {
    const top = `sluice-9.8.7-${target}`;
    const tar = new Uint8Array(
      writeTar([{ name: `${top}/sluice`, mode: 0o755, bytes: Buffer.from(text) }], 1_790_000_000),
    );
    made.set(`${top}.tar.gz`, Bun.gzipSync(tar));
    made.set(`${top}.tar.zst`, Bun.zstdCompressSync(tar));
  }
  made.set("SHA256SUMS", [...made].map(([name, bytes]) => `${sha256(bytes)}  ${name}\n`).join(""));
  return made;
}

/** A folder for PATH with these tools of the system and no others. */
function onlyTools(...names: string[]): string {
  const tools = join(folder, "tools");
  mkdirSync(tools);
  const always = "sh awk tar gzip cut wc mktemp rm mv cp chmod mkdir id sha256sum uname".split(" ");
  for (const name of [...always, ...names]) {
    const found = Bun.which(name);
    if (found) symlinkSync(found, join(tools, name));
  }
  return tools;
}

type Options = { args?: string[]; script?: string; env?: Record<string, string>; shell?: string };

async function install({ args, script = SCRIPT, env, shell = "sh" }: Options = {}) {
  const given = args ?? ["--from", `http://127.0.0.1:${server.port}`, "--to", join(folder, "bin"), "--target", TARGET];
  const child = Bun.spawn([shell, script, ...given], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", HOME: folder, TMPDIR: folder, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, stdout, stderr] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()]);
  expect(stdout).toBe("");
  return { code, stderr };
}

const installed = () => join(folder, "bin/sluice");
/** What lies in the test's folder beside what was made for the test: nothing may be left behind. */
const leftovers = () =>
  readdirSync(folder).filter((name) => !["bin", "tools", "dist", "cut.sh", ".local"].includes(name));

/** The installation must have failed with `words`, and what was there before must be there still, untouched and alone. */
async function expectRefused(words: string, options?: Options): Promise<void> {
  mkdirSync(join(folder, "bin"), { recursive: true });
  writeFileSync(installed(), "the one before");
  const { code, stderr } = await install(options);
  expect(stderr).toContain(words);
  expect(code).toBe(1);
  expect(readFileSync(installed(), "utf8")).toBe("the one before");
  expect(readdirSync(join(folder, "bin"))).toEqual(["sluice"]);
  expect(leftovers()).toEqual([]);
}

const isHere = (name: string) => Bun.which(name) !== null;
const shells = ["sh", "dash", "bash"].filter(isHere);
const fetchers = ["curl", "wget"].filter(isHere);

describe("the install script", () => {
  test.each(shells)("puts the checked executable in place, run by %s", async (shell) => {
    const { code, stderr } = await install({ shell });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain(`Sluice 9.8.7 is in ${installed()}.`);
    expect(readFileSync(installed(), "utf8")).toBe(PROGRAM);
    expect(statSync(installed()).mode & 0o777).toBe(0o755);
    expect(readdirSync(join(folder, "bin"))).toEqual(["sluice"]);
    expect(leftovers()).toEqual([]);
    expect(asked).toEqual(["SHA256SUMS", `sluice-9.8.7-${TARGET}.tar.${Bun.which("zstd") ? "zst" : "gz"}`]);
  });

  test.each(fetchers)("takes the gzip archive where there is no zstd, with %s alone", async (fetcher) => {
    const tools = onlyTools(fetcher);
    const first = await install({ env: { PATH: tools } });
    expect(first).toMatchObject({ code: 0 });
    expect(asked).toEqual(["SHA256SUMS", `sluice-9.8.7-${TARGET}.tar.gz`]);
    expect(first.stderr).toContain("to your PATH");
  });

  test("takes a folder, and the place and the address from the environment", async () => {
    const dist = join(folder, "dist");
    mkdirSync(dist);
    for (const [name, bytes] of files) writeFileSync(join(dist, name), bytes);
    const env = { SLUICE_RELEASE: dist, SLUICE_INSTALL_DIR: join(folder, "bin") };
    expect(await install({ args: ["--target", TARGET], env })).toMatchObject({ code: 0 });
    expect(readFileSync(installed(), "utf8")).toBe(PROGRAM);
    expect(asked).toEqual([]);
  });

  test("knows a folder of the PATH however it is written, and names one that is not there as a PATH takes it", async () => {
    mkdirSync(join(folder, "bin"));
    const given = (to: string) => ["--from", `http://127.0.0.1:${server.port}`, "--to", to, "--target", TARGET];
    const path = `${process.env["PATH"]}:${join(folder, "bin")}`;
    for (const to of [`${join(folder, "bin")}/`, "bin", "./bin//"]) {
      const there = await install({ args: given(to), env: { PATH: path } });
      expect(there).toEqual({ code: 0, stderr: `Sluice 9.8.7 is in ${installed()}.\n` });
      expect((await install({ args: given(to) })).stderr).toContain(`Add ${join(folder, "bin")} to your PATH`);
    }
  });

  test("says how it is used, when asked", () => {
    const { exitCode, stderr } = Bun.spawnSync(["sh", SCRIPT, "--help"], { stderr: "pipe" });
    expect([exitCode, stderr.toString()]).toEqual([
      0,
      "usage: sh install.sh --from ADDRESS [--to FOLDER] [--target TARGET]\n",
    ]);
  });

  test("says what is missing", async () => {
    const tools = onlyTools();
    await expectRefused("curl or wget is needed", { env: { PATH: tools } });
    for (const [tool, words] of [
      ["gzip", "gzip or zstd is needed"],
      ["tar", "tar is needed"],
      ["sha256sum", "sha256sum, shasum or openssl is needed"],
    ] as const) {
      Bun.spawnSync(["rm", join(tools, tool)]);
      await expectRefused(words, { env: { PATH: tools } });
    }
    expect(asked).toEqual([]);
  });

  test("replaces the one before while it may be running", async () => {
    mkdirSync(join(folder, "bin"));
    writeFileSync(installed(), "the one before");
    const before = statSync(installed()).ino;
    expect(await install()).toMatchObject({ code: 0 });
    expect(readFileSync(installed(), "utf8")).toBe(PROGRAM);
    expect(statSync(installed()).ino).not.toBe(before);
  });

  test("finds out what machine it is on", async () => {
    const tools = onlyTools("zstd", "curl", "wget");
    const machines: [system: string, machine: string, words: string][] = [
      ["Linux", "riscv64", "no build for the processor riscv64"],
      ["FreeBSD", "amd64", "no build for FreeBSD"],
      ["Darwin", "arm64", "no archive for darwin-arm64"],
      ["Linux", "aarch64", "no archive for linux-arm64"],
    ];
    for (const [system, machine, words] of machines) {
      Bun.spawnSync(["rm", "-f", join(tools, "uname")]);
      writeFileSync(join(tools, "uname"), `#!/bin/sh\n[ "$1" = -s ] && echo ${system} || echo ${machine}\n`);
      chmodSync(join(tools, "uname"), 0o755);
      const args = ["--from", `http://127.0.0.1:${server.port}`, "--to", join(folder, "bin")];
      await expectRefused(words, { args, env: { PATH: tools } });
    }
  });

  test("takes the build for musl where programs are linked to it, though the other loader is there too", async () => {
    const tools = onlyTools("zstd", "curl", "wget");
    for (const [name, text] of [
      ["uname", '[ "$1" = -s ] && echo Linux || echo x86_64'],
      ["ldd", 'echo "musl libc (x86_64)" >&2; exit 1'],
    ] as const) {
      Bun.spawnSync(["rm", "-f", join(tools, name)]);
      writeFileSync(join(tools, name), `#!/bin/sh\n${text}\n`);
      chmodSync(join(tools, name), 0o755);
    }
    const args = ["--from", `http://127.0.0.1:${server.port}`, "--to", join(folder, "bin")];
    await expectRefused("the executable for linux-x64-musl does not run", { args, env: { PATH: tools } });
  });
});

describe("the install script refuses", () => {
  const archives = () => [...files.keys()].filter((name) => name.includes(`-${TARGET}.tar.`));
  const changeSums = (change: (text: string) => string) =>
    files.set("SHA256SUMS", change(files.get("SHA256SUMS") as string));

  test("an archive that is not the one of the checksum", async () => {
    const other = makeRelease("#!/bin/sh\necho 6.6.6\n");
    for (const name of archives()) files.set(name, other.get(name) ?? "");
    await expectRefused("the checksum of sluice-9.8.7-linux-x64.tar.");
  });

  test("one that was cut off on its way", async () => {
    for (const name of archives()) files.set(name, (files.get(name) as Uint8Array).slice(0, -1));
    await expectRefused("checksum");
  });

  test("a release without this target, with two, without a checksum, and with a name that is none", async () => {
    changeSums((text) => text.replaceAll(`-${TARGET}.tar`, "-elsewhere.tar"));
    await expectRefused(`no archive for ${TARGET}`);
    files = makeRelease(PROGRAM);
    changeSums((text) => text + text.replaceAll("9.8.7", "9.8.8"));
    await expectRefused("more than one archive");
    files = makeRelease(PROGRAM);
    changeSums((text) => text.replace(/^[0-9a-f]{64}/gm, "0".repeat(63)));
    await expectRefused("no checksum");
    files = makeRelease(PROGRAM);
    changeSums((text) => text.replaceAll("sluice-9.8.7", "sluice-/../../9.8.7"));
    await expectRefused("a name that is no archive's");
    files.delete("SHA256SUMS");
    await expectRefused("could not get SHA256SUMS");
    expect(asked.filter((name) => name !== "SHA256SUMS")).toEqual([]);
  });

  test("an executable that does not run here", async () => {
    const args = [
      "--from",
      `http://127.0.0.1:${server.port}`,
      "--to",
      join(folder, "bin"),
      "--target",
      `${TARGET}-musl`,
    ];
    await expectRefused("does not run on this machine", { args });
    await expectRefused("install: a build for musl needs libstdc++ (apk add libstdc++)\n", { args });
  });

  test("one whose loader misses a library, without the hundred lines that say so", async () => {
    files = makeRelease(`#!/bin/sh\nfor line in 1 2 3 4 5 6 7 8 9; do echo "no symbol $line" >&2; done\nexit 127\n`);
    await expectRefused("no symbol 3\ninstall: the executable for");
  });

  test("one with instructions that the processor lacks, and says so", async () => {
    files = makeRelease("#!/bin/sh\nkill -ILL $$\n");
    await expectRefused("install: it needs SSE4.2, which this processor lacks; ");
  });

  test("to go into a folder of its own name, such as a clone", async () => {
    mkdirSync(installed(), { recursive: true });
    const { code, stderr } = await install();
    expect([code, stderr]).toEqual([1, `install: ${installed()} is a folder\n`]);
    expect(readdirSync(join(folder, "bin"))).toEqual(["sluice"]);
    expect(readdirSync(installed())).toEqual([]);
    expect(leftovers()).toEqual([]);
  });

  test("to fetch over what anybody on the way can change, or from nowhere", async () => {
    const to = ["--to", join(folder, "bin"), "--target", TARGET];
    await expectRefused("only https", { args: ["--from", "http://example.com/release", ...to] });
    await expectRefused("only https", { args: ["--from", "ftp://127.0.0.1/release", ...to] });
    await expectRefused("a name or a password", {
      args: ["--from", `http://127.0.0.1:${server.port}@example.com`, ...to],
      env: { PATH: onlyTools("curl") },
    });
    await expectRefused("there is no folder", { args: ["--from", join(folder, "nowhere"), ...to] });
    await expectRefused("say where the release lies", { args: to });
    await expectRefused("needs a value", { args: ["--from"] });
    await expectRefused("unknown argument --form", { args: ["--form", "x"] });
    expect(asked).toEqual([]);
  });

  test("to do anything when it was cut off itself", async () => {
    const text = readFileSync(SCRIPT, "utf8");
    const cut = join(folder, "cut.sh");
    const ends = [0.2, 0.5, 0.8, 0.95].map((part) => Math.floor(text.length * part));
    for (const end of [...ends, text.trimEnd().lastIndexOf("\n")]) {
      writeFileSync(cut, text.slice(0, end));
      await install({ script: cut });
      expect([end, existsSync(installed()), asked]).toEqual([end, false, []]);
    }
  });
});

describe.each(fetchers)("the install script that is led elsewhere, with %s", (fetcher) => {
  const certificate = (name: string) => join(import.meta.dir, `../fixtures/certificates/${name}.txt`);
  let elsewhere: (name: string) => string;
  let secure: ReturnType<typeof Bun.serve>;
  let options: Options;
  beforeEach(() => {
    secure = Bun.serve({
      ...{ port: 0, hostname: "127.0.0.1" },
      tls: { cert: Bun.file(certificate("sound")), key: Bun.file(certificate("key")) },
      fetch(request) {
        const name = new URL(request.url).pathname.slice(1);
        const file = files.get(name.replace("there/", ""));
        if (name.startsWith("there/") && file !== undefined) return new Response(file);
        return new Response(null, { status: 302, headers: { Location: elsewhere(name) } });
      },
    });
    const tools = onlyTools(fetcher);
    writeFileSync(join(tools, "wgetrc"), `ca_certificate = ${certificate("authority")}\n`);
    options = {
      args: ["--from", `https://localhost:${secure.port}`, "--to", join(folder, "bin"), "--target", TARGET],
      env: { PATH: tools, CURL_CA_BUNDLE: certificate("authority"), WGETRC: join(tools, "wgetrc") },
    };
  });
  afterEach(() => secure.stop(true));

  test("goes there where that is https too", async () => {
    elsewhere = (name) => (name === "SHA256SUMS" ? `/there/${name}` : `https://localhost:${secure.port}/there/${name}`);
    expect(await install(options)).toMatchObject({ code: 0 });
    expect(asked).toEqual([]);
  });

  test.each(["SHA256SUMS", `sluice-9.8.7-${TARGET}.tar.gz`])("and refuses %s where that is http", async (lost) => {
    elsewhere = (name) => (name === lost ? `HTTP://127.0.0.1:${server.port}/${name}` : `/there/${name}`);
    await expectRefused(fetcher === "wget" ? "leads away from https" : `could not get ${lost}`, options);
  });
});

test("the address that a release wrote into it is used when no other is given", async () => {
  const script = makeInstaller(readFileSync(SCRIPT, "utf8"), "https://127.0.0.1:1/release");
  writeFileSync(join(folder, "cut.sh"), script);
  const args = ["--to", join(folder, "bin"), "--target", TARGET];
  await expectRefused("could not get SHA256SUMS from https://127.0.0.1:1/release", {
    args,
    script: join(folder, "cut.sh"),
  });
  const given = [...args, "--from", `http://127.0.0.1:${server.port}`];
  expect(await install({ args: given, script: join(folder, "cut.sh") })).toMatchObject({ code: 0 });
});
