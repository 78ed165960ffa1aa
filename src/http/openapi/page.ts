import stylePath from "swagger-ui-dist/swagger-ui.css" with { type: "file" };
import bundlePath from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "file" };
import { commonHeaders } from "../errors.ts";
import { requestIdOf } from "../request.ts";

/** Nothing but our own files runs, nothing is framed, and nothing leaves for elsewhere (reliability 7.3 rule 8). */
const PAGE_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** How long a browser may keep a page's files, seconds. */
const MAX_AGE_SECONDS = 600;

/** Headers of a page and of its files. */
function pageHeaders(request: Request, contentType: string): Record<string, string> {
  return {
    ...commonHeaders(requestIdOf(request)),
    "content-type": contentType,
    "content-security-policy": PAGE_CSP,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": contentType.startsWith("text/html") ? "no-cache" : `max-age=${MAX_AGE_SECONDS}`,
  };
}

/** A page or one of its files: text from memory, or a file embedded in the executable. */
export function servePage(request: Request, body: string | Blob, contentType: string): Response {
  return new Response(body, { headers: pageHeaders(request, contentType) });
}

/** Its links are relative: a proxy may have put the gateway below a path. */
const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice: the interface</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="openapi/viewer.css">
<link rel="stylesheet" href="openapi/page.css">
</head>
<body>
<div id="viewer"></div>
<noscript><p>This page needs JavaScript. The document itself is at <a href="openapi/json">openapi/json</a>.</p></noscript>
<script src="openapi/viewer.js"></script>
<script src="openapi/start.js"></script>
</body>
</html>
`;

/** The scheme here is for before the viewer is there: its own colours come with a class. */
const STYLE = `:root { color-scheme: light dark; }
body { margin: 0; }
noscript p { margin: 2rem; font: 16px/1.5 system-ui, sans-serif; }
.swagger-ui .info { margin: 30px 0; }
/* The document has no links between its answers, and the column that says so pushed the page wider than a phone. */
.swagger-ui .response-col_links { display: none; }
/* A narrow page has no room for the first columns of the viewer, and the names of headers are longer than its others (WCAG 2.2, 1.4.10: 320 pixels). */
@media (max-width: 640px) {
  .swagger-ui .responses-table .response-col_status { min-width: 3rem !important; }
  .swagger-ui table.headers td { overflow-wrap: anywhere; }
}
/* The viewer takes the mark from what the keyboard is at, in its dark scheme. */
:focus-visible { outline: 2px solid #1a7fdc !important; }
/* The viewer's own colours of these are too pale to be read by everybody (WCAG 2.2, 1.4.3: 4.5 to 1). */
html:not(.dark-mode) .swagger-ui .info .title small { background: #5a6270; }
html:not(.dark-mode) .swagger-ui .info .title small.version-stamp { background: #3d6b00; }
html:not(.dark-mode) .swagger-ui .info a, html:not(.dark-mode) .swagger-ui .info .url { color: #1a5fb4; }
html:not(.dark-mode) .swagger-ui .btn.authorize { border-color: #0b7a48; color: #0b7a48; }
html:not(.dark-mode) .swagger-ui .btn.authorize svg { color: #0b7a48; }
html:not(.dark-mode) .swagger-ui .opblock-post .opblock-summary-method { background: #0b7a48; }
html:not(.dark-mode) .swagger-ui .opblock-get .opblock-summary-method { background: #1565c0; }
html:not(.dark-mode) .swagger-ui .opblock-delete .opblock-summary-method { background: #c62828; }
html:not(.dark-mode) .swagger-ui .btn.cancel { border-color: #b71c1c; color: #b71c1c; }
html:not(.dark-mode) .swagger-ui .renderedMarkdown code { color: #7a00d8; }
html:not(.dark-mode) .swagger-ui .btn.execute { background: #1565c0; border-color: #1565c0; }
.dark-mode .swagger-ui table.headers td { color: #e4e6e6; }
.dark-mode .swagger-ui .btn.cancel { border-color: #ff9090 !important; color: #ff9090 !important; }
.swagger-ui .language-json span[style*="rgb(211, 99, 99)"] { color: #f09a9a !important; }
`;

/**
 * `validatorUrl: null`: the viewer would otherwise show a badge drawn by a server elsewhere. It knows a dark scheme and does not ask whether the reader
 * wants it. Its choice of a server has a label without words, and so no name for who hears the page (WCAG 2.2, 4.1.2). What is tried goes to where the page
 * came from: the document names the public address, which may be below a path that nothing takes away for who reads the page beside the proxy.
 */
const START = `"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const choose = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", choose);
choose();
const here = new URL(".", location.href).pathname.replace(/(.)\\/$/, "$1");
const specification = new URL("openapi/json", location.href).href;
SwaggerUIBundle({
  url: "openapi/json",
  dom_id: "#viewer",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis],
  responseInterceptor(response) {
    if (!response.ok || response.url !== specification) return response;
    const read = JSON.parse(response.text);
    read.servers[0].url = here;
    response.text = JSON.stringify(read);
    return response;
  },
  onComplete: () => document.getElementById("servers")?.setAttribute("aria-label", "Server"),
});
`;

/** The viewer's page and files, by path: text of our own, or the embedded file. */
export const VIEWER_FILES: readonly { path: string; contentType: string; body: () => string | Blob }[] = [
  { path: "/openapi", contentType: "text/html; charset=utf-8", body: () => HTML },
  { path: "/openapi/page.css", contentType: "text/css; charset=utf-8", body: () => STYLE },
  { path: "/openapi/start.js", contentType: "text/javascript; charset=utf-8", body: () => START },
  { path: "/openapi/viewer.css", contentType: "text/css; charset=utf-8", body: () => Bun.file(stylePath) },
  { path: "/openapi/viewer.js", contentType: "text/javascript; charset=utf-8", body: () => Bun.file(bundlePath) },
];
