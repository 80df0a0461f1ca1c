import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";

/**
 * Checks that a member's name leads to one place below the folder that it is extracted to, and to the same on every system.
 * @throws INVALID_REQUEST saying what is wrong with it
 */
export function checkMemberName(name: string, archive: string): void {
  const wrong = wrongWith(name);
  if (wrong === null) return;
  throw new DsecError(
    "INVALID_REQUEST",
    `${archive}: member ${JSON.stringify(name).slice(0, 200)} ${wrong}; nothing of this archive is extracted`,
  );
}

function wrongWith(name: string): string | null {
  if (name === "") return "has no name";
  if (new TextEncoder().encode(name).length > LIMITS.archiveNameBytes) {
    return `has a name of more than ${LIMITS.archiveNameBytes} bytes`;
  }
  if (name.startsWith("/")) return "has an absolute name";
  if (/^[A-Za-z]:/.test(name) || name.includes("\\")) return "has a name that is another on other systems";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is refused
  if (/[\u0000-\u001f\u007f]/.test(name) || !name.isWellFormed()) return "has a name with control characters";
  for (const part of name.split("/")) {
    if (part === "..") return "leads out of the folder";
    if (part === "" || part === ".") return "has a name with empty parts";
    // a character has three bytes at most
    if (part.length > 85 && new TextEncoder().encode(part).length > 255)
      return "has a part of a name that no file system takes";
  }
  return null;
}

/** Names of one archive: two members of one name, or one below another, would overwrite each other. */
export class MemberNames {
  /** With U+0000, which no name holds, between their parts: sorted, what is below a name comes right after it. */
  readonly #names: string[] = [];
  readonly #archive: string;

  constructor(archive: string) {
    this.#archive = archive;
  }

  /** @throws INVALID_REQUEST */
  add(name: string): void {
    checkMemberName(name, this.#archive);
    if (this.#names.length >= LIMITS.archiveMembers) {
      throw new DsecError("INVALID_REQUEST", `${this.#archive}: more than ${LIMITS.archiveMembers} members`);
    }
    this.#names.push(name.replaceAll("/", "\0"));
  }

  /** Once all were added. @throws INVALID_REQUEST */
  checkTogether(): void {
    this.#names.sort();
    for (const [at, name] of this.#names.entries()) {
      const next = this.#names[at + 1];
      if (next === name) throw this.#wrong(name, "comes twice");
      if (next?.startsWith(`${name}\0`)) throw this.#wrong(name, "is a file and a folder at once");
    }
  }

  #wrong(name: string, why: string): DsecError {
    const shown = JSON.stringify(name.replaceAll("\0", "/")).slice(0, 200);
    return new DsecError("INVALID_REQUEST", `${this.#archive}: member ${shown} ${why}`);
  }
}
