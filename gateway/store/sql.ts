/**
 * The little that the store asks of a database client. Values cross it in forms that every client agrees on:
 * parameters are text, numbers, booleans or null (JSON goes as text and is cast in the statement), and columns
 * are text, int4, boolean, timestamptz (Date), json and jsonb (parsed), or int8, which arrives as text, number or bigint
 * and is read with `Number`: none of ours passes 2^53.
 */
export type Parameter = string | number | boolean | null;
export type Row = Record<string, unknown>;

/** One statement; numbered parameters (`$1`). */
export type Query = <R = Row>(text: string, parameters?: readonly Parameter[]) => Promise<R[]>;

export type Sql = {
  query: Query;
  /**
   * All of it or nothing. Inside, only the query that is handed in may be used.
   * @param options.unhurried its statements take as long as they take
   */
  transaction<T>(
    work: (query: Query, script: (text: string) => Promise<void>) => Promise<T>,
    options?: { unhurried: boolean },
  ): Promise<T>;
  close(): Promise<void>;
};

/**
 * Whether a batch may have failed for the sake of one of its items: SQLSTATE classes 21 to 23 (cardinality, data,
 * constraint) and 54 (a program limit). Anything else would fail again for each item.
 */
export function isPoison(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(2[123]|54)[0-9A-Z]{3}$/.test(code);
}
