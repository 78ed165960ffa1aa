import "./boot.ts";

// Loaded only now: boot.ts may replace the process, and what is loaded before that is loaded twice.
const { run } = await import("./cli/run.ts");
const code = await run(process.argv.slice(2));
// `serve` keeps running after its first lines and ends the process itself.
if (code !== undefined) process.exitCode = code;
