/**
 * Batches cross to the database as columns: a text parameter for each, one line for each item. That costs a fraction of
 * what building and taking apart one large JSON document does. Specs and results are lines as they are, because
 * JSON.stringify writes no line break.
 */

/** A column as one parameter; null and the empty string both arrive as null. */
export function column(values: readonly (string | number | null)[]): string {
  for (const value of values) {
    if (typeof value === "string" && value.includes("\n")) {
      throw new Error(`a column's value has a line break: ${JSON.stringify(value.slice(0, 100))}`);
    }
  }
  return values.join("\n");
}

/** What a column is in SQL: text[]. */
export function textArray(parameter: number): string {
  return `string_to_array($${parameter}, E'\\n', '')`;
}

/** The rows of columns $1, $2, … under these names, all text, with their `place` from 1. */
export function rowsOf(...names: string[]): string {
  return `unnest(${names.map((_, i) => textArray(i + 1)).join(", ")}) with ordinality as i(${names.join(", ")}, place)`;
}
