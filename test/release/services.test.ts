import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Parser } from "htmlparser2";
import { createProgram } from "../../src/cli/program.ts";
import { DEFAULT_BLOCKING_SECONDS } from "../../src/config/load.ts";
import { longestDrainMs } from "../../src/relay/running/drain.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";

const RELEASE = join(import.meta.dir, "../../.release");
const read = (name: string) => readFileSync(join(RELEASE, name), "utf8");

/** The settings of a systemd unit, by section; a name may come more than once. */
function readUnit(text: string): Map<string, [name: string, value: string][]> {
  const sections = new Map<string, [string, string][]>();
  let section: [string, string][] | undefined;
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const heading = /^\[(\w+)\]$/.exec(line)?.[1];
    if (heading) {
      section = [];
      sections.set(heading, section);
    } else {
      const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
      if (!name || value === undefined || !section) throw new Error(`not a line of a unit: ${line}`);
      section.push([name, value]);
    }
  }
  return sections;
}

/** Whether the program takes this command line: it is read, and nothing of it runs. */
function isTaken(words: string[]): boolean {
  const program = createProgram("0.0.0", () => {});
  const command = program.commands.find((candidate) => candidate.name() === words[0]);
  if (!command) return false;
  const flags = words.slice(1).filter((word) => word.startsWith("--"));
  return flags.every((flag) => command.options.some((option) => option.long === flag));
}

describe("the systemd unit", () => {
  const unit = readUnit(read("sluice.service"));
  const service = new Map(unit.get("Service"));

  test.skipIf(process.platform !== "linux")("is set up again with a new release, and keeps the keys", () => {
    const folder = makeFolder();
    const file = join(folder, "etc/environment");
    const told = readFileSync(join(RELEASE, "../README.md"), "utf8").match(/^.*install -D .*$/m)?.[0] ?? "";
    const setUp = () => Bun.spawnSync(["sh", "-c", told.replaceAll("/etc/sluice/environment", file)]).exitCode;
    expect([told.includes("/etc/sluice/environment"), setUp()]).toEqual([true, 0]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, "OPENAI_API_KEY=kept\n");
    expect([setUp(), readFileSync(file, "utf8")]).toEqual([0, "OPENAI_API_KEY=kept\n"]);
    removeFolder(folder);
  });

  test("starts the program as it is installed, as a user of its own, and gives it time to end", () => {
    expect([...unit.keys()]).toEqual(["Unit", "Service", "Install"]);
    const [program, ...words] = service.get("ExecStart")?.split(" ") ?? [];
    expect(program).toBe("/usr/local/bin/sluice");
    expect(isTaken(words)).toBe(true);
    expect(isTaken(["serve", "--no-such-flag"])).toBe(false);
    expect(words.at(-1)).toBe(`/var/lib/${service.get("StateDirectory")}`);
    expect(service.get("User")).toBe("sluice");
    // Debian's smallest systems (without procps) and NixOS have no /bin/kill: the shell's own needs no program.
    expect(service.get("ExecReload")).toBe('/bin/sh -c "kill -HUP $MAINPID"');
    expect(Number(service.get("TimeoutStopSec")) * 1000).toBeGreaterThan(
      longestDrainMs(DEFAULT_BLOCKING_SECONDS * 1000),
    );
    expect(service.has("MemoryDenyWriteExecute")).toBe(false);
    expect(service.get("UMask")).toBe("0077");
  });

  test("is started again where a reload came before the program could hear it", () => {
    // As every program that has only just begun, whatever it does later: SIGHUP ends it, and `on-failure` has nothing against that.
    const reload = service.get("ExecReload") ?? "";
    const young = Bun.spawnSync(["/bin/sh", "-c", `export MAINPID=$$; ${reload.replaceAll('"', "'")}; true`]);
    expect({ ended: young.signalCode, again: service.get("RestartForceExitStatus") }).toEqual({
      ended: "SIGHUP",
      again: "SIGHUP",
    });
  });

  test("says nothing twice, and its file of keys may be missing", () => {
    for (const settings of unit.values()) expect(new Set(settings.map(([name]) => name)).size).toBe(settings.length);
    expect(service.get("EnvironmentFile")?.startsWith("-/")).toBe(true);
  });

  test.skipIf(Bun.which("systemd-analyze") === null)("is what systemd takes", () => {
    const folder = makeFolder();
    try {
      // It looks for the program: /bin/true stands for it.
      const file = join(folder, "sluice.service");
      writeFileSync(file, read("sluice.service").replace("ExecStart=/usr/local/bin/sluice ", "ExecStart=/bin/true "));
      const check = Bun.spawnSync(["systemd-analyze", "verify", file], { stdout: "pipe", stderr: "pipe" });
      const complaints = check.stderr
        .toString()
        .split("\n")
        .filter((line) => line.includes("sluice.service"));
      expect({ code: check.exitCode, complaints }).toEqual({ code: 0, complaints: [] });
    } finally {
      removeFolder(folder);
    }
  });
});

type Value = string | number | boolean | Value[] | { [key: string]: Value };
type Element = { name: string; text: string; children: Element[] };

/** The root element of an XML text. Throws for tags that do not match. */
function readXml(text: string): Element {
  const root: Element = { name: "", text: "", children: [] };
  const open = [root];
  const parser = new Parser(
    {
      onopentag(name) {
        const element: Element = { name, text: "", children: [] };
        open.at(-1)?.children.push(element);
        open.push(element);
      },
      ontext(piece) {
        const element = open.at(-1);
        if (element) element.text += piece;
      },
      onclosetag(name, implied) {
        const closed = open.pop();
        if (implied && !/^(?:true|false)$/.test(name)) throw new Error(`<${name}> is not closed`);
        if (closed?.name !== name) throw new Error(`</${name}> closes <${closed?.name}>`);
      },
    },
    { xmlMode: true },
  );
  parser.end(text);
  const [only] = root.children;
  if (!only || root.children.length !== 1) throw new Error("not one root");
  return only;
}

/** A property list's value (Apple's PropertyList-1.0). */
function toValue({ name, text, children }: Element): Value {
  if (name === "string") return text;
  if (name === "integer") return Number(text);
  if (name === "true" || name === "false") return name === "true";
  if (name === "array") return children.map(toValue);
  if (name !== "dict" || children.length % 2 !== 0) throw new Error(`not of a property list: ${name}`);
  const value: { [key: string]: Value } = {};
  for (let at = 0; at < children.length; at += 2) {
    const [key, item] = [children[at], children[at + 1]];
    if (!key || !item || key.name !== "key" || Object.hasOwn(value, key.text)) throw new Error("a key is wrong");
    value[key.text] = toValue(item);
  }
  return value;
}

describe("the launchd agent", () => {
  const plist = readXml(read("sluice.plist"));
  const agent = toValue(plist.children[0] as Element) as { [key: string]: Value };

  test("is a property list that starts at login and again after a fault", () => {
    expect(plist.name).toBe("plist");
    expect(agent).toMatchObject({
      Label: "sluice",
      RunAtLoad: true,
      KeepAlive: { SuccessfulExit: false },
      Umask: 0o077,
    });
    expect(Number(agent["ExitTimeOut"]) * 1000).toBeGreaterThan(longestDrainMs(DEFAULT_BLOCKING_SECONDS * 1000));
    expect(() => readXml(read("sluice.plist").replace("</dict>", ""))).toThrow();
  });

  test("is put in place also for a user who has had no agent yet, and no folder of them", () => {
    for (const page of [read("sluice.plist"), readFileSync(join(RELEASE, "../README.md"), "utf8")]) {
      const told = /(?:mkdir|cp) [^\n]*(?= && launchctl bootstrap)/.exec(page)?.[0] ?? "";
      const home = makeFolder();
      const environment = { HOME: home, PATH: "/usr/bin:/bin" };
      const { exitCode } = Bun.spawnSync(["/bin/sh", "-c", told], { cwd: RELEASE, env: environment, stderr: "pipe" });
      const put = join(home, "Library/LaunchAgents/sluice.plist");
      expect([exitCode, existsSync(put) && readFileSync(put, "utf8")]).toEqual([0, read("sluice.plist")]);
      removeFolder(home);
    }
  });

  test("its shell runs the program it was installed as, and keeps what it says in the user's logs", () => {
    const folder = makeFolder();
    try {
      mkdirSync(join(folder, ".local/bin"), { recursive: true });
      mkdirSync(join(folder, "Library/Logs"), { recursive: true });
      const program = join(folder, ".local/bin/sluice");
      writeFileSync(program, '#!/bin/sh\necho "called with $*"\necho "a complaint" >&2\nexit 3\n');
      chmodSync(program, 0o755);
      const command = agent["ProgramArguments"] as string[];
      const result = Bun.spawnSync(command, {
        env: { HOME: folder, PATH: "/usr/bin:/bin" },
        stdout: "pipe",
        stderr: "pipe",
      });
      expect({ code: result.exitCode, output: result.stdout.toString(), complaint: result.stderr.toString() }).toEqual({
        code: 3,
        output: "",
        complaint: "",
      });
      expect(readFileSync(join(folder, "Library/Logs/sluice.log"), "utf8")).toBe("called with serve\na complaint\n");
    } finally {
      removeFolder(folder);
    }
  });
});

describe("the container", () => {
  const lines = read("Dockerfile").replaceAll("\\\n", " ").split("\n");
  const said = (word: string) =>
    lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));

  test("is built in two stages with the pinned Bun, and runs as nobody special with a volume and a look at its health", () => {
    expect(said("FROM").length).toBe(2);
    expect(said("FROM")[0]).toContain(`oven/bun:${Bun.version}-`);
    expect(said("USER")).toEqual(["10001:10001"]);
    const [volume] = said("VOLUME");
    expect(said("ENV").join(" ")).toContain(`SLUICE_DATA=${volume}`);
    // Asked where it listens, also when somebody sets another port.
    expect(said("HEALTHCHECK")[0]).toContain(":$SLUICE_PORT/healthz");
    // Busybox's wget would ask a proxy of the environment for this machine.
    expect(said("HEALTHCHECK")[0]).toContain("wget -q -Y off ");
    const [command] = said("CMD");
    expect(isTaken(JSON.parse(command ?? "") as string[])).toBe(true);
    // Everything that is copied is let through by the ignore file, and every target of the build is one.
    const ignored = read("Dockerfile.dockerignore").split("\n");
    expect(ignored[0]).toBe("*");
    for (const copied of said("COPY").filter((line) => !line.startsWith("--"))) {
      for (const name of copied.split(" ").slice(0, -1)) expect(ignored).toContain(`!${name}`);
    }
  });

  test("is documented to be stopped with time for running answers, which Docker alone does not give", () => {
    for (const page of [read("Dockerfile"), readFileSync(join(RELEASE, "../README.md"), "utf8")]) {
      const seconds = /docker run .*--stop-timeout (\d+) /.exec(page)?.[1];
      expect(Number(seconds) * 1000).toBeGreaterThan(longestDrainMs(DEFAULT_BLOCKING_SECONDS * 1000));
    }
  });
});
