/** Starts the page: reads the data in it, and shows what the address names, `#call-12` or `#trace-7/call-12`. */
import type { OneReport } from "#trace/analysis/report-data.ts";
import type { PageData } from "../page-data.ts";
import { button, h } from "./dom.ts";
import { manyView } from "./many-view.ts";
import { traceView, type View } from "./trace-view.ts";
import { baseName, line } from "./words.ts";

const { report, pages, up } = dataIn("report") as PageData;
const app = document.getElementById("app")!;
let view: View | null = null;
/** Of the trace among many that is shown; null for all of them. */
let shown: number | null | undefined;

function go(): void {
  const [, number, place] = /^#(?:trace-(\d+)\/?)?(.*)$/.exec(location.hash) ?? [];
  const wanted = report.kind === "many" && number !== undefined ? Number(number) - 1 : null;
  if (view === null || wanted !== shown) {
    shown = wanted;
    view = viewOf(wanted);
    const keys = button("?", showHelp, { class: "help", "aria-label": "Keys", title: "Keys (?)" });
    view.element.querySelector(".bar")!.append(keys);
    app.replaceChildren(view.element);
  }
  view.go(place ?? "");
}

function viewOf(place: number | null): View {
  if (report.kind === "one") {
    document.title = `${line(baseName(report.trace.file), 120)} · DSec trace`;
    const back = up === null ? null : h("a", { class: "back", href: up }, "← all traces");
    return traceView(report, back, (id) => history.replaceState(null, "", `#${id}`));
  }
  const trace = place === null ? null : (dataIn(`trace-${place}`) as OneReport | null);
  if (place === null || trace === null) {
    document.title = `${report.count} traces · DSec`;
    return manyView(report, addressOf);
  }
  document.title = `${line(baseName(trace.trace.file), 120)} · DSec trace`;
  const back = h("a", { class: "back", href: "#" }, "← all traces");
  return traceView(trace, back, (id) => history.replaceState(null, "", `#trace-${place + 1}/${id}`));
}

function addressOf(place: number): string | null {
  if (pages) return `trace-${String(place + 1).padStart(5, "0")}.html`;
  return document.getElementById(`trace-${place}`) === null ? null : `#trace-${place + 1}`;
}

function dataIn(id: string): unknown {
  const text = document.getElementById(id)?.textContent;
  return text == null ? null : JSON.parse(text);
}

const help = h("dialog", { "aria-label": "Keys" });
document.body.append(help);

function showHelp(): void {
  const keys: [string, string][] = [
    ...(view?.keys ?? []),
    ["u", "all traces, where this is one of many"],
    ["?", "these keys"],
  ];
  help.replaceChildren(
    h("h2", {}, "Keys"),
    h(
      "dl",
      { class: "facts" },
      ...keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
    button("Close", () => help.close()),
  );
  help.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const target = event.target as Element;
  if (target.matches("input, select, textarea")) return;
  // what has the focus is pressed by these
  if ((event.key === "Enter" || event.key === " ") && target.matches("button, a, summary")) return;
  if (event.key === "?") showHelp();
  else if (event.key === "u") document.querySelector<HTMLAnchorElement>("a.back")?.click();
  else if (view?.key(event) !== true) return;
  event.preventDefault();
});
addEventListener("hashchange", go);
go();
