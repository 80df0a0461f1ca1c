/** What a gateway answers at its root: what it is, and where everything else is described. */
import packageJson from "../package.json" with { type: "json" };

export const FRONT = {
  name: "DSec gateway",
  version: packageJson.version,
  description: packageJson.description,
  links: {
    documentation: "/docs",
    openapi: "/openapi.json",
    health: "/healthz",
    metrics: "/metrics",
    jwks: "/.well-known/jwks.json",
  },
};

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 12vh auto; max-width: 36rem; padding: 0 1rem }
dt { margin-top: .75rem }
dd { margin: 0; opacity: .75 }
`;

const SAID: [path: string, what: string][] = [
  [FRONT.links.documentation, "the API, to read and to try"],
  [FRONT.links.openapi, "the same for programs: OpenAPI 3.1"],
  [FRONT.links.health, "whether it is alive"],
  [FRONT.links.metrics, "figures for Prometheus"],
  [FRONT.links.jwks, "the keys that verify its attestations"],
];

/** Needs nothing else, and nothing of it is anybody's but ours. */
export const FRONT_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${FRONT.name}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${FRONT.name}</h1>
<p>${FRONT.description}. Version ${FRONT.version}.</p>
<dl>
${SAID.map(([path, what]) => `<dt><a href="${path}">${path}</a></dt><dd>${what}</dd>`).join("\n")}
</dl>
</main>
</body>
</html>
`;

/** Nothing runs and nothing is loaded; the style is allowed by its digest (CSP level 3). */
export async function frontPagePolicy(): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(STYLE)));
  const style = `'sha256-${btoa(String.fromCharCode(...digest))}'`;
  return `default-src 'none'; style-src ${style}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}
