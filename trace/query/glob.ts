/**
 * `*` stands for any text, also none, `?` for one character, `\` before either for itself; the whole text must match.
 * The pieces between the stars are looked for from left to right and never again, so that no pattern takes longer than
 * the text's length times its own.
 */
export type Glob = (text: string) => boolean;

export function globOf(pattern: string): Glob {
  const pieces = piecesOf(pattern);
  const first = pieces[0]!;
  const last = pieces.at(-1)!;
  if (pieces.length === 1) return (text) => unitsMatch(text, 0, first) && text.length === first.length;
  return (text) => {
    if (text.length < first.length + last.length || !unitsMatch(text, 0, first)) return false;
    const end = text.length - last.length;
    if (!unitsMatch(text, end, last)) return false;
    let at = first.length;
    for (const piece of pieces.slice(1, -1)) {
      at = find(text, at, end, piece);
      if (at < 0) return false;
    }
    return at <= end;
  };
}

/** What is between two stars: characters, and null for any one. */
type Piece = (string | null)[];

function piecesOf(pattern: string): Piece[] {
  let piece: Piece = [];
  const pieces = [piece];
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at]!;
    if (char === "*") {
      piece = [];
      pieces.push(piece);
    } else if (char === "?") piece.push(null);
    else if (char === "\\" && at + 1 < pattern.length) piece.push(pattern[++at]!);
    else piece.push(char);
  }
  return pieces;
}

/** The offset after the first place of the piece from `at` on, or -1. */
function find(text: string, at: number, end: number, piece: Piece): number {
  if (!piece.includes(null)) {
    const found = text.indexOf(piece.join(""), at);
    return found < 0 || found + piece.length > end ? -1 : found + piece.length;
  }
  for (let from = at; from + piece.length <= end; from++) {
    if (unitsMatch(text, from, piece)) return from + piece.length;
  }
  return -1;
}

function unitsMatch(text: string, from: number, piece: Piece): boolean {
  return piece.every((unit, at) => (unit === null ? from + at < text.length : text[from + at] === unit));
}
