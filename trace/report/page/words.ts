/** Numbers, times and untrusted text as people read them. */

/** `840 µs`, `12.4 ms`, `3.20 s`, `2 m 05 s`. */
export function durationText(us: number | null): string {
  if (us === null) return "–";
  if (us < 1000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`;
  if (us < 60_000_000) return `${(us / 1e6).toFixed(2)} s`;
  const [minutes, seconds] = [Math.floor(us / 60_000_000), Math.floor((us % 60_000_000) / 1e6)];
  if (minutes < 60) return `${minutes} m ${String(seconds).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m`;
}

/** Three places of what is no whole number, without the zeros at its end. */
export function numberText(value: number | null): string {
  if (value === null) return "–";
  if (value < 0) return `−${numberText(-value)}`;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const text = Math.abs(value) < 0.001 || Math.abs(value) >= 1e9 ? value.toExponential(2) : value.toFixed(3);
  return text.replace(/\.?0+$/, "");
}

export function percentText(share: number): string {
  const percent = share * 100;
  return `${percent >= 99.95 || percent === 0 ? Math.round(percent) : percent.toFixed(percent < 10 ? 2 : 1)} %`;
}

export function pText(p: number | null): string {
  if (p === null) return "–";
  return p < 0.0001 ? "<0.0001" : p.toFixed(4);
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
}

export function baseName(file: string): string {
  return file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1) || file;
}

/** Untrusted text as one line, in which control characters and those that reorder text are seen instead of obeyed. */
export function line(text: string, most = 400): string {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
  return cut.replace(/\r\n|[\n\r]/g, "↵").replace(UNSEEN, shownCode);
}

/** C0 controls in caret notation, as `cat -v` has them, others by their code point: a reader must see that they are there. */
export function shownCode(char: string): string {
  const code = char.codePointAt(0)!;
  if (code < 0x20 || code === 0x7f) return `^${String.fromCodePoint(code ^ 0x40)}`;
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** C0 and C1 controls, and what Unicode's annex 9 reorders by; tab and line feed are what they are. */
export const UNSEEN = /(?![\t\n])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** The next number that is 1, 2 or 5 times a power of ten; 0 of nothing. */
export function roundStep(least: number, whole = true): number {
  if (least <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= least)! * power;
  return whole ? Math.max(1, step) : step;
}
