import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { canonicalHost } from "#core/policy/host.ts";
import { parseUrl } from "#core/policy/url.ts";
import { sharedPath } from "#test/support/shared.ts";

/**
 * web-platform-tests for the URL standard. We are stricter than it on purpose, never different: what it refuses we
 * refuse, and what we accept is what it reads.
 */

type HostVector = { input: string; output: string | null };

function vectors<T>(name: string): T[] {
  const path = sharedPath(`data/vectors/wpt/${name}.json`);
  if (path === null) return [];
  return (JSON.parse(readFileSync(path, "utf8")) as (T | string)[]).filter(
    (one): one is T => typeof one === "object",
  );
}

function attempt<T>(read: () => T): T | DsecError {
  try {
    return read();
  } catch (error) {
    if (error instanceof DsecError) return error;
    throw error;
  }
}

/** What we refuse although the standard reads it: said here a second time, and not by calling the code under test. */
function stricter(input: string, hostname: string): boolean {
  const labels = hostname.replace(/\.$/, "").split(".");
  return (
    // < and > with U+0338 compose into letters that IDNA allows; in front of that they are markup
    /[%<>\p{Zs}]/u.test(input) ||
    hostname.length > 253 ||
    labels.some((label) => label.length > 63 || !/^\w([\w-]*\w)?$/.test(label)) ||
    labels.some((label) => label.startsWith("xn--") && !validALabel(label))
  );
}

/** An A-label is valid where its Unicode form leads back to it; `xn--a.` beside a Unicode label is refused. */
function validALabel(label: string): boolean {
  return URL.canParse(`http://${label}.\u00e9.test/`);
}

const hostVectors = [...vectors<HostVector>("IdnaTestV2"), ...vectors<HostVector>("toascii")];

test.runIf(hostVectors.length > 0)(
  "every IDNA vector is read as the URL standard reads it, or refused",
  () => {
    let accepted = 0;
    let refused = 0;
    for (const { input, output } of hostVectors) {
      const host = attempt(() => canonicalHost(input));
      const about = JSON.stringify({ input, output });
      if (host instanceof DsecError) {
        expect(host.code, about).toBe("HOST_INVALID");
        expect(output === null || stricter(input, output), `refused without need: ${about}`).toBe(true);
        refused++;
      } else {
        expect(output, `accepted against the standard: ${about}`).not.toBeNull();
        expect(host.text, about).toBe(output!.replace(/\.$/, ""));
        // canonical means that it stays as it is
        expect(canonicalHost(host.text).text, about).toBe(host.text);
        accepted++;
      }
    }
    expect(accepted).toBeGreaterThan(300);
    expect(refused).toBeGreaterThan(1500);
  },
);

type UrlVector = {
  input: string;
  base: string | null;
  failure?: boolean;
  protocol: string;
  username: string;
  password: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
};
const urlVectors = vectors<UrlVector>("urltestdata").filter(
  ({ input }) => input.isWellFormed() && /^\s*(https?|wss?):/i.test(input),
);

test.runIf(urlVectors.length > 0)(
  "every web URL vector is read as the URL standard reads it, or refused",
  () => {
    let accepted = 0;
    let refused = 0;
    for (const vector of urlVectors) {
      const target = attempt(() => parseUrl(vector.input));
      const about = JSON.stringify(vector);
      if (target instanceof DsecError) {
        const repaired =
          vector.failure === true ||
          /[\0-\x20\x7f\\%]/.test(vector.input.replace(/[?#].*$/s, "")) ||
          /[\0-\x20\x7f\\]/.test(vector.input) ||
          !/^(https?|wss?):\/\/[^/?#@]+(?<!:)([/?#]|$)/i.test(vector.input) ||
          vector.port === "0" ||
          /:0{3,}\d+([/?#]|$)/.test(vector.input) ||
          stricter(vector.input, vector.hostname);
        expect(repaired, `refused without need: ${about}`).toBe(true);
        refused++;
        continue;
      }
      expect(vector.failure, `accepted against the standard: ${about}`).toBeUndefined();
      const scheme = { "http:": "http", "ws:": "http", "https:": "https", "wss:": "https" }[vector.protocol];
      expect(target.scheme, about).toBe(scheme);
      expect(target.host.text, about).toBe(canonicalHost(vector.hostname).text);
      expect(String(target.port), about).toBe(vector.port || (scheme === "http" ? "80" : "443"));
      expect(target.path, about).toBe(vector.pathname);
      expect(target.query, about).toBe(vector.search);
      // what is sent is read again as the same target
      expect(parseUrl(target.url), about).toEqual(target);
      accepted++;
    }
    expect(accepted).toBeGreaterThan(80);
    expect(refused).toBeGreaterThan(150);
  },
);
