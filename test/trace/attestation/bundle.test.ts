import { beforeAll, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import { END_REASONS } from "#core/task.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { ISSUER, issuedAttestation, NOW_MS } from "#test/support/attestation.ts";
import { type GivenFile, verifyBundle } from "#trace/attestation/bundle.ts";
import { explainAttestation } from "#trace/attestation/explain.ts";

let issued: Awaited<ReturnType<typeof issuedAttestation>>;
beforeAll(async () => {
  issued = await issuedAttestation({ outputCount: 3 });
});

const file = async (path: string, content: string): Promise<GivenFile> => ({
  path,
  digest: await sha256(content),
  size: content.length,
});
const verify = (files: GivenFile[], options: { issuer?: string | null; nonce?: string } = {}) =>
  verifyBundle({
    jwt: issued.attestation.jwt,
    jwks: issued.jwks,
    issuer: ISSUER,
    now: NOW_MS,
    files,
    ...options,
  });

test("files beside an attestation are matched with its outputs and streams by name and bytes", async () => {
  const found = await verify([
    await file("output-0.json", issued.files.get("/work/output-0.json")!),
    await file("./work/output-2.json", issued.files.get("/work/output-2.json")!),
    await file("stdout", issued.files.get("stdout")!),
  ]);
  expect(found.matched.map(({ attestedAs }) => attestedAs)).toEqual([
    "/work/output-0.json",
    "/work/output-2.json",
    "stdout",
  ]);
  expect(found.notGiven).toEqual(["/work/output-1.json"]);
  expect(found.kid).toBe(issued.signer.kid);
});

test("a file that was changed, or is no output, is named with both digests", async () => {
  const genuine = issued.files.get("/work/output-1.json")!;
  for (let bit = 0; bit < genuine.length * 8; bit++) {
    const bytes = Buffer.from(genuine);
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    const given = { path: "output-1.json", digest: await sha256(bytes), size: bytes.length };
    await expect(verify([given])).rejects.toMatchObject({
      code: "DIGEST_MISMATCH",
      message: expect.stringMatching(
        new RegExp(`${issued.held.taskId}: output-1.json: ${given.digest}.*${await sha256(genuine)}`),
      ),
    });
  }
  // the right bytes under the name of another output, part of a name, a name that no output has
  for (const path of ["output-0.json", "put-1.json", "other.json", "", "/"]) {
    await expect(verify([await file(path, genuine)])).rejects.toMatchObject({ code: "DIGEST_MISMATCH" });
  }
});

test("no file is looked at when the attestation itself is refused", async () => {
  const [head, payload, signature] = issued.attestation.jwt.split(".") as [string, string, string];
  const jwt = `${head}.${payload}.${signature[0] === "A" ? "B" : "A"}${signature.slice(1)}`;
  await expect(
    verifyBundle({
      jwt,
      jwks: issued.jwks,
      issuer: ISSUER,
      now: NOW_MS,
      files: [await file("other.json", "")],
    }),
  ).rejects.toMatchObject({ code: "ATTESTATION_INVALID" });
});

test("the words say what was proven and by whom, and never claim more than was checked", async () => {
  const bundle = await verify([await file("output-0.json", issued.files.get("/work/output-0.json")!)], {
    issuer: null,
  });
  const { proven, notProven } = explainAttestation(bundle.claims, bundle);
  const [yes, no] = [proven.join("\n"), notProven.join("\n")];
  expect(yes).toContain(issued.signer.kid);
  expect(yes).toContain("exited with status 0");
  expect(yes).toContain("output-0.json is, byte for byte, the output /work/output-0.json");
  expect(yes).toContain("namespaces of its own (pid, net, mnt, uts, ipc, user, cgroup)");
  expect(yes).toContain(
    "capabilities over its own ids alone (chown, dac_override, fowner, fsetid, kill, setgid, setuid), no_new_privs on",
  );
  expect(yes).toContain("536870912 bytes of memory, 256 processes, disk operations unlimited");
  expect(no).toContain("not a quote of a trusted execution environment");
  expect(no).toContain('the nonce "client-nonce-1", which was not compared');
  expect(no).toContain("is the gateway you meant");
  expect(no).toContain("/work/output-1.json, /work/output-2.json");

  const checked = await verify([], { nonce: "client-nonce-1" });
  const words = explainAttestation(checked.claims, checked);
  expect(words.proven.join("\n")).toContain('repeats the nonce "client-nonce-1"');
  expect(words.notProven.join("\n")).not.toContain("gateway you meant");
});

test("weak isolation, cut streams and every end are said as they are", async () => {
  const { claims, ...facts } = await verify([]);
  const say = (change: (claims: AttestationClaims) => void) => {
    const changed = structuredClone(claims);
    change(changed);
    const { proven, notProven } = explainAttestation(changed, facts);
    return [...proven, ...notProven].join("\n");
  };
  const weak = say(({ dsec }) => {
    Object.assign(dsec.isolation!, {
      unshared: [],
      seccomp_mode: 0,
      no_new_privs: false,
      interfaces: ["lo", "eth0"],
    });
    dsec.isolation!.capabilities.bounding = "000001ffffffffff";
    dsec.isolation!.limits.memory_bytes = null;
  });
  expect(weak).toMatch(
    /namespaces of its own \(none\), no seccomp filter, capabilities over the host \(.*sys_admin.*\), no_new_privs off/,
  );
  const none = say(({ dsec }) => {
    const empty = "0000000000000000";
    dsec.isolation!.capabilities = {
      effective: empty,
      permitted: empty,
      inheritable: empty,
      bounding: empty,
      ambient: empty,
    };
  });
  expect(none).toContain("no capabilities, no_new_privs on");
  expect(weak).toMatch(/interfaces lo, eth0\..*\n.*memory unlimited/);
  expect(say(({ dsec }) => Object.assign(dsec, { isolation: null }))).toContain("No isolation was observed");
  expect(say(({ dsec }) => Object.assign(dsec.result.stdout, { kept_bytes: 10, total_bytes: 30 }))).toContain(
    "stdout past its first 10 of 30 bytes",
  );
  expect(say((changed) => Object.assign(changed, { eat_nonce: undefined }))).toContain(
    "the task had no nonce",
  );
  expect(say((changed) => Object.assign(changed, { exp: Number.MAX_SAFE_INTEGER }))).toContain(
    "s after 1970",
  );
  for (const reason of END_REASONS) {
    expect(say(({ dsec }) => Object.assign(dsec.result.outcome, { reason, signal: "SIGSEGV" }))).toMatch(
      /The command [a-z]/,
    );
  }
});
