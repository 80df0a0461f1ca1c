/** Parts of parsed JSON from outside. */
export type Members = { readonly [name: string]: unknown };

export function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The beginning of a text, as text that UTF-8 can carry. */
export function cut(text: string, maxChars: number): string {
  return text.slice(0, maxChars).toWellFormed();
}
