/** The tokens of an answer, shaded by how probable each was; one that is pressed or focused shows its five best candidates. */
import type { TokenEntry } from "#trace/analysis/report-data.ts";
import { button, h, section, styled } from "./dom.ts";
import { count, line, numberText, percentText } from "./words.ts";

const AT_ONCE = 1_000;

export function tokensView(tokens: readonly TokenEntry[]): HTMLElement {
  const strip = h("div", { class: "tokens", role: "listbox", "aria-label": "Tokens", tabindex: 0 });
  const candidates = h("div", { class: "candidates" });
  let chosen = -1;
  const choose = (place: number) => {
    const token = tokens[place];
    if (token === undefined) return;
    while (strip.childElementCount <= place) more();
    strip.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = place;
    const element = strip.children[place]!;
    element.setAttribute("aria-selected", "true");
    element.scrollIntoView({ block: "nearest" });
    strip.setAttribute("aria-activedescendant", element.id);
    candidates.replaceChildren(candidatesOf(token, place));
  };
  const rest = button("", () => more(), { class: "small" });
  const more = () => {
    const from = strip.childElementCount;
    strip.append(...tokens.slice(from, from + AT_ONCE).map((token, at) => tokenElement(token, from + at)));
    const left = tokens.length - strip.childElementCount;
    rest.hidden = left === 0;
    rest.textContent = `show ${Math.min(left, AT_ONCE).toLocaleString("en-US")} more of ${left.toLocaleString("en-US")}`;
  };
  strip.addEventListener("click", (event) => {
    const element = (event.target as Element).closest<HTMLElement>("[data-token]");
    if (element !== null) choose(Number(element.dataset.token));
  });
  strip.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    event.stopPropagation();
    choose(Math.max(0, chosen + by));
  });
  more();
  choose(leastProbable(tokens));
  return section(
    `Tokens (${tokens.length.toLocaleString("en-US")})`,
    h("p", { class: "hint" }, surprise(tokens)),
    strip,
    rest,
    candidates,
  );
}

function tokenElement(token: TokenEntry, place: number): HTMLElement {
  const p = Math.exp(token.logprob);
  const element = h(
    "span",
    {
      ...{
        id: `token-${place}`,
        class: "token",
        role: "option",
        "data-token": place,
        "aria-selected": "false",
      },
      title: `${percentText(p)}`,
    },
    shown(token.text, token.id),
  );
  // the less probable, the stronger
  return styled(element, { "--doubt": `${Math.round(Math.min(1, -token.logprob / 4) * 55)}%` });
}

function candidatesOf({ id, text, logprob, top }: TokenEntry, place: number): HTMLElement {
  const listed = top.slice(0, 5);
  const mass = listed.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
  const isListed = listed.some((one) => one.id === id);
  const rows = listed.map((one) => candidateRow(shown(one.text, one.id), one.id, one.logprob, one.id === id));
  if (!isListed) rows.push(candidateRow(shown(text, id), id, logprob, true));
  const tail = Math.max(0, 1 - mass - (isListed ? 0 : Math.exp(logprob)));
  if (listed.length > 0) rows.push(probabilityRow(h("em", {}, "all others"), "", tail, "", "tail"));
  return h(
    "table",
    { class: "grid" },
    h("caption", {}, `Token ${place + 1}: what else could have stood here`),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...["candidate", "id", "probability", "", "ln p"].map((title) =>
          h("th", { scope: "col", class: title === "candidate" || title === "" ? "" : "figure" }, title),
        ),
      ),
    ),
    h("tbody", {}, ...rows),
  );
}

function candidateRow(text: string, id: number, logprob: number, isTaken: boolean): HTMLElement {
  const name = h("code", {}, text);
  return probabilityRow(
    isTaken ? h("span", {}, name, " ← taken") : name,
    String(id),
    Math.exp(logprob),
    numberText(logprob),
    isTaken ? "taken" : "",
  );
}

function probabilityRow(
  name: HTMLElement,
  id: string,
  p: number,
  logprob: string,
  kind: string,
): HTMLElement {
  const bar = styled(h("span", { class: "probability" }), { width: `${(p * 100).toFixed(2)}%` });
  return h(
    "tr",
    { class: kind },
    h("td", {}, name),
    h("td", { class: "figure" }, id),
    h("td", { class: "figure" }, percentText(p)),
    h("td", { class: "probability-cell" }, bar),
    h("td", { class: "figure" }, logprob),
  );
}

function shown(text: string | null, id: number): string {
  if (text === null) return `#${id}`;
  return line(text, 80).replaceAll(" ", "·") || "∅";
}

function leastProbable(tokens: readonly TokenEntry[]): number {
  let least = 0;
  for (const [at, token] of tokens.slice(0, AT_ONCE).entries())
    if (token.logprob < tokens[least]!.logprob) least = at;
  return least;
}

function surprise(tokens: readonly TokenEntry[]): string {
  const mean = tokens.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, tokens.length);
  const doubtful = tokens.filter(({ logprob }) => logprob < Math.log(0.5)).length;
  return `Perplexity ${numberText(Math.exp(-mean))}; ${count(doubtful, "token")} less probable than one half. Chosen: the least probable one.`;
}
