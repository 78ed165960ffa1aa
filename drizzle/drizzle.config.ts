import { defineConfig } from "drizzle-kit";

// Paths are read from the project's top folder, where `bun run generate` starts.
export default defineConfig({ dialect: "sqlite", schema: "./src/db/schema.ts", out: "./drizzle" });
