import { Elysia } from "elysia";
import { methodNotAllowed } from "./errors.ts";
import { servePage } from "./openapi/page.ts";
import { HIDDEN } from "./openapi-detail.ts";

/** Its links are relative: a proxy may have put the gateway below a path. */
const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/root.css">
</head>
<body>
<main>
<h1>Sluice</h1>
<p>Every vendor's AI models behind one gate. This address speaks their clients' dialects:</p>
<dl>
<dt>OpenAI style</dt><dd><code>POST /v1/chat/completions</code>, base URL: this address with <code>/v1</code></dd>
<dt>OpenAI style, newer</dt><dd><code>POST /v1/responses</code>, base URL: this address with <code>/v1</code></dd>
<dt>Anthropic style</dt><dd><code>POST /v1/messages</code>, base URL: this address as it is</dd>
</dl>
<ul>
<li><a href="openapi">The interface</a>, to read and to try</li>
<li><a href="openapi/json">The interface as an OpenAPI document</a></li>
<li><a href="v1/models">The models</a></li>
</ul>
</main>
</body>
</html>
`;

const CSS = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; }
main { max-width: 42rem; margin: 12vh auto; padding: 0 1.5rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.75rem; }
dt { font-weight: 600; margin-top: 0.75rem; }
dd { margin: 0; }
code { font-family: ui-monospace, monospace; font-size: 0.9em; }
`;

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1f6f8b"/><path d="M3 4v8M8 4v8M13 4v8" stroke="#fff" stroke-width="1.6"/><path d="M1.5 9.5h13" stroke="#9be0f2" stroke-width="1.6"/></svg>
`;

/** GET and HEAD /: a short page that says what this is and links the documentation; its style, and the icon of every page (contract 3). */
export function rootRoutes() {
  return new Elysia({ name: "sluice-root" })
    .get("/", ({ request }) => servePage(request, HTML, "text/html; charset=utf-8"), HIDDEN)
    .get("/assets/root.css", ({ request }) => servePage(request, CSS, "text/css; charset=utf-8"), HIDDEN)
    .get("/favicon.svg", ({ request }) => servePage(request, ICON, "image/svg+xml"), HIDDEN)
    .get("/favicon.ico", ({ request }) => servePage(request, ICON, "image/svg+xml"), HIDDEN)
    .all("/", methodNotAllowed("GET, HEAD"), HIDDEN);
}
