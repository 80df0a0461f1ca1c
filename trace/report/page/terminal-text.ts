/**
 * What programs wrote, colours included. Of control sequences (ECMA-48) only SGR is obeyed, as classes of spans; the others,
 * titles and links among them, are shown as the codes they are. A lone carriage return begins a line, as the command line does
 * it: nothing can write over what came before.
 */
import { h } from "./dom.ts";
import { shownCode, UNSEEN } from "./words.ts";

export function terminalText(text: string): DocumentFragment {
  const out = document.createDocumentFragment();
  const style: SgrStyle = { bold: false, dim: false, italic: false, underline: false, colour: null };
  let at = 0;
  while (at < text.length) {
    const begins = text.indexOf(ESCAPE, at);
    const end = begins < 0 ? text.length : begins;
    if (end > at) out.append(piece(text.slice(at, end), style));
    if (begins < 0) break;
    SEQUENCE.lastIndex = begins;
    const [sequence = ESCAPE, parameters, final] = SEQUENCE.exec(text) ?? [];
    if (final === "m") obey(parameters ?? "", style);
    else out.append(h("span", { class: "code" }, seen(sequence)));
    at = begins + sequence.length;
  }
  return out;
}

type SgrStyle = { bold: boolean; dim: boolean; italic: boolean; underline: boolean; colour: string | null };

const ESCAPE = "\u001b";
const BELL = "\u0007";

/** A CSI, a string such as OSC up to its end or any other control, or an escape alone: each in linear time. */
const SEQUENCE = new RegExp(
  `${ESCAPE}(?:\\[([0-9;:]*)[ -/]*([@-~])|[\\]PX^_]\\P{Cc}*(?:${BELL}|${ESCAPE}\\\\)?|[ -/]*[0-~])?`,
  "uy",
);

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function obey(parameters: string, style: SgrStyle): void {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0)
      Object.assign(style, { bold: false, dim: false, italic: false, underline: false, colour: null });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 39) style.colour = null;
    else if (code >= 30 && code <= 37) style.colour = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) style.colour = COLOURS[code - 90]!;
    // colours of a larger palette, which would not be readable on every ground
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
  }
}

function piece(text: string, { bold, dim, italic, underline, colour }: SgrStyle): Node {
  const classes = [
    bold && "sgr-bold",
    dim && "sgr-dim",
    italic && "sgr-italic",
    underline && "sgr-underline",
    colour !== null && `sgr-${colour}`,
  ].filter((name) => name !== false);
  return classes.length === 0
    ? document.createTextNode(seen(text))
    : h("span", { class: classes.join(" ") }, seen(text));
}

function seen(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(UNSEEN, shownCode);
}
