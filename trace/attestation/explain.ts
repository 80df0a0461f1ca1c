import { capabilityNames } from "#core/capabilities.ts";
import type { AttestationClaims, Isolation } from "#core/wire/attestations.ts";
import type { Result } from "#core/wire/tasks.ts";
import type { VerifiedFacts } from "./bundle.ts";
import { utcTime } from "./verify.ts";

/** An attestation in words: each entry is one sentence for people. */
export type Explanation = { proven: string[]; notProven: string[] };

/**
 * Says of a verified attestation what it proves and what it does not. "Proven" is always in the words of who saw it:
 * the executor signed what it observed, the gateway what it checked.
 */
export function explainAttestation(claims: AttestationClaims, facts: VerifiedFacts): Explanation {
  const { dsec } = claims;
  const proven = [
    `Key ${facts.kid} signed this attestation and nothing in it was changed since.`,
    `${claims.iss} issued it at ${utcTime(claims.iat)}; it holds until ${utcTime(claims.exp)}.`,
    `Executor ${dsec.executor.id} (host ${dsec.executor.host.hostname}, kernel ${dsec.executor.host.kernel}, build ` +
      `${claims.swversion[0]}) reported the attempt under its own key ${dsec.executor.jkt}; the gateway checked that report.`,
    `Task ${claims.sub}, attempt ${dsec.attempt}, lease ${dsec.lease_id} with fence ${dsec.fence}: at that time no other ` +
      "executor could write for the task.",
    `What was asked for is the task whose canonical JSON has ${dsec.spec_digest}; its image "${dsec.image.name}" had ` +
      `${dsec.image.digest}.`,
    outcome(dsec.result),
    outputs(dsec.result),
    ...isolation(dsec.isolation),
  ];
  const notProven: string[] = [];

  if (claims.eat_nonce === undefined) {
    notProven.push(
      "Freshness: the task had no nonce, so an attestation of an earlier equal task looks alike but for its id.",
    );
  } else if (facts.nonceChecked) {
    proven.push(`It was made for this request: it repeats the nonce "${claims.eat_nonce}".`);
  } else {
    notProven.push(
      `Freshness: it carries the nonce "${claims.eat_nonce}", which was not compared with yours.`,
    );
  }
  if (!facts.issuerChecked) {
    notProven.push(
      `That ${claims.iss} is the gateway you meant: only the keys you gave were asked, not an issuer's name.`,
    );
  }
  for (const file of facts.matched) {
    proven.push(
      `${file.path} is, byte for byte, ${attestedName(file.attestedAs)} of this attempt (${file.size} bytes).`,
    );
  }
  if (facts.notGiven.length > 0) {
    const shown = facts.notGiven.slice(0, 5).join(", ");
    const more = facts.notGiven.length > 5 ? ` and ${facts.notGiven.length - 5} more` : "";
    notProven.push(
      `The bytes of ${shown}${more}: their digests are attested, but you gave no such file to compare.`,
    );
  }
  for (const name of ["stdout", "stderr"] as const) {
    const { kept_bytes: kept, total_bytes: total } = dsec.result[name];
    if (kept < total)
      notProven.push(`The ${name} past its first ${kept} of ${total} bytes: it was counted, not kept.`);
  }
  notProven.push(
    "The host's honesty: this is the word of executor and gateway about what they saw, not a quote of a trusted execution " +
      "environment (TEE). Whoever controls the host's kernel or the executor's key can make the executor see anything.",
    "That the output is right: it proves which command gave these bytes, not that the command does what it should.",
  );
  return { proven, notProven };
}

function outcome(result: Result): string {
  const { reason, exit_code: code, signal, message } = result.outcome;
  const end = {
    exited: `exited with status ${code}`,
    signaled: `was ended by ${signal}`,
    timed_out: "was killed at its deadline",
    oom_killed: "was killed because it used more memory than its limit",
    cancelled: "was killed because the client cancelled it",
    command_not_found: "was not found in the image",
    command_not_executable: "is there but could not be started",
    disk_full: "ran out of its disk space",
    output_too_large: "left more output than is kept",
    launch_failed: "was not run: the sandbox could not be made",
    executor_lost: "gave no result: its executor was lost",
    record_failed: "ended, and what was recorded of it could not be kept",
  }[reason];
  return `The command ${end}${message ? ` (${message})` : ""}.`;
}

function outputs({ outputs, stdout, stderr }: Result): string {
  const files = outputs.map(({ path, size, digest }) => `${path} (${size} bytes, ${digest})`);
  const shown = files.slice(0, 5).join(", ") + (files.length > 5 ? ` and ${files.length - 5} more` : "");
  return (
    `It left ${files.length === 0 ? "no output files" : shown}; stdout ${stdout.digest} and stderr ${stderr.digest}. ` +
    "The gateway held content of each of these digests when it signed."
  );
}

function isolation(seen: Isolation | null): string[] {
  if (seen === null) return ["No isolation was observed: the sandbox did not come to life."];
  const names = new Set(Object.values(seen.capabilities).flatMap(capabilityNames));
  const over = seen.unshared.includes("user") ? "over its own ids alone" : "over the host";
  const capabilities =
    names.size === 0 ? "no capabilities" : `capabilities ${over} (${[...names].join(", ")})`;
  const seccomp = ["no seccomp filter", "seccomp strict mode", `${seen.seccomp_filters} seccomp filter(s)`][
    seen.seccomp_mode
  ];
  const { cpu_millis: cpu, memory_bytes: memory, pids, disk_iops: iops } = seen.limits;
  const limits = [
    cpu === null ? "CPU unlimited" : `${cpu / 1000} CPU`,
    memory === null ? "memory unlimited" : `${memory} bytes of memory`,
    pids === null ? "processes unlimited" : `${pids} processes`,
    iops === null ? "disk operations unlimited" : `${iops} disk operations a second`,
  ];
  return [
    `The executor read from its kernel, for this sandbox: namespaces of its own (${seen.unshared.join(", ") || "none"}), ` +
      `${seccomp}, ${capabilities}, no_new_privs ${seen.no_new_privs ? "on" : "off"}, user id 0 mapped to host id ` +
      `${seen.uid_map.host_first}, interfaces ${seen.interfaces.join(", ") || "none"}.`,
    `Limits read back from its cgroup (${seen.cgroup}): ${limits.join(", ")}.`,
  ];
}

function attestedName(name: string): string {
  return name === "stdout" || name === "stderr" ? `the ${name}` : `the output ${name}`;
}
