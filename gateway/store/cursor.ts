import { DsecError } from "#core/errors.ts";
import { idPattern } from "#core/ids.ts";

/** Lists run by id, newest first (ids begin with their time); a cursor is the last id seen, opaque to clients. */
export function encodeCursor(id: string): string {
  return btoa(`1:${id}`).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The id that a cursor of ours holds; INVALID_CURSOR for anything else. */
export function decodeCursor(cursor: string, kind: Parameters<typeof idPattern>[0]): string {
  let id = "";
  try {
    if (/^[A-Za-z0-9_-]+$/.test(cursor)) {
      const text = atob(cursor.replaceAll("-", "+").replaceAll("_", "/"));
      if (text.startsWith("1:")) id = text.slice(2);
    }
  } catch {
    // not base64: falls through to the refusal
  }
  if (!idPattern(kind).test(id) || encodeCursor(id) !== cursor) {
    throw new DsecError(
      "INVALID_CURSOR",
      `cursor ${JSON.stringify(cursor.slice(0, 80))} is not one that this list gave out; start without a cursor`,
    );
  }
  return id;
}

/** A page out of up to `limit + 1` rows that were asked for. */
export function pageOf<R, T extends { id: string }>(rows: R[], limit: number, item: (row: R) => T) {
  const items = rows.slice(0, limit).map(item);
  const last = items.at(-1);
  return { items, next_cursor: rows.length > limit && last ? encodeCursor(last.id) : null };
}
