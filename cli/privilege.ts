import { DsecError } from "#core/errors.ts";

/** Said before anything is made that a later start as root would trip over. */
export function requireRoot(): void {
  const user = process.geteuid?.();
  if (user === 0) return;
  throw new DsecError(
    "HOST_UNSUITABLE",
    `sandboxes need root, for their namespaces, mounts and cgroups, and this runs as user ${user}; ` +
      "run it as root, or use a gateway elsewhere (--gateway, with a key in DSEC_API_KEY)",
  );
}
