import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";

/** git http-backend as CGI (RFC 3875): a server that `git clone` speaks its smart protocol with. */
export const gitBackend =
  (repositories: string): RequestListener =>
  (request, response) => {
    const { pathname, search } = new URL(request.url!, "http://h");
    const backend = spawn("git", ["http-backend"], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: repositories,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: pathname.slice("/git".length),
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
    });
    request.pipe(backend.stdin);
    const parts: Buffer[] = [];
    backend.stdout.on("data", (part) => parts.push(part));
    backend.on("close", () => {
      const answer = Buffer.concat(parts);
      const end = answer.indexOf("\r\n\r\n");
      let status = 200;
      for (const line of answer.subarray(0, end).toString("latin1").split("\r\n")) {
        const [name = "", value = ""] = line.split(/:\s*(.*)/);
        if (name.toLowerCase() === "status") status = Number.parseInt(value, 10);
        else response.setHeader(name, value);
      }
      response.writeHead(status).end(answer.subarray(end + 4));
    });
  };

/** Makes `one.git` in the folder, and returns where it lies. */
export function makeRepository(parent: string): string {
  const folder = join(parent, "repositories");
  const work = join(folder, "work");
  mkdirSync(work, { recursive: true });
  writeFileSync(join(work, "README"), "cloned through the loopback proxy\n");
  writeFileSync(join(work, "large"), Buffer.alloc(3_000_000, "0123456789abcdef\n"));
  const git = (...words: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t.test", ...words], {
      cwd: work,
      stdio: "pipe",
    });
  git("init", "-q");
  git("add", ".");
  git("commit", "-q", "-m", "first");
  execFileSync("git", ["clone", "-q", "--bare", work, join(folder, "one.git")], { stdio: "pipe" });
  return folder;
}
