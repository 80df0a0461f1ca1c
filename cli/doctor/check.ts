/** One thing that was looked at: what was found, and where it is not well, how to mend it. */
export type Check = {
  name: string;
  status: "ok" | "warn" | "fail";
  found: string;
  mend?: string;
};

export function ok(name: string, found: string): Check {
  return { name, status: "ok", found };
}

/** It works, but less well or less safely than it could. */
export function warn(name: string, found: string, mend: string): Check {
  return { name, status: "warn", found, mend };
}

/** Something will not work at all. */
export function fail(name: string, found: string, mend: string): Check {
  return { name, status: "fail", found, mend };
}

/** A check that itself breaks is a finding, not the end of the examination. */
export async function examine(name: string, check: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await check();
  } catch (error) {
    return [fail(name, error instanceof Error ? error.message : String(error), "see the message")];
  }
}
