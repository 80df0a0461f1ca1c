import { afterEach, expect, test, vi } from "vitest";
import { plainLog } from "#cli/log.ts";

afterEach(() => vi.restoreAllMocks());

test("a line for people says what is known of a failure, and of what is not known nothing", () => {
  const lines: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  plainLog()({ level: "error", message: "no such file", code: undefined, lease_id: "lease_1", tries: 3 });
  expect(lines).toEqual([expect.stringContaining("no such file (lease_id=lease_1, tries=3)\n")]);
  expect(lines[0]).not.toContain("code");
});
