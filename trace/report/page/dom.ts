/** Elements are made by these alone. Text becomes text nodes; nothing here, or in the page, parses markup. */

export type Child = Node | string | number | null | false;
type Props = {
  class?: string;
  /** Listeners by the name of their event. */
  on?: Record<string, (event: never) => void>;
  [attribute: string]: string | number | boolean | null | undefined | Record<string, unknown>;
};

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return furnished(document.createElement(tag), props, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

/** Lengths that are computed are set as properties: the page's policy forbids style attributes. */
export function styled<E extends HTMLElement>(element: E, properties: Record<string, string>): E {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "part" }, h("h3", {}, title), ...children);
}

/** Name and value pairs; those without a value are left out. */
export function facts(pairs: [name: string, value: Child][]): HTMLElement {
  const known = pairs.filter(([, value]) => value !== null && value !== "" && value !== false);
  return h(
    "dl",
    { class: "facts" },
    ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

export function button(label: Child, onClick: () => void, props: Props = {}): HTMLButtonElement {
  return h("button", { type: "button", ...props, on: { click: onClick } }, label);
}

function furnished<E extends Element>(element: E, props: Props, children: Child[]): E {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value as Record<string, EventListener>)) {
        element.addEventListener(event, listener);
      }
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== false) element.append(typeof child === "number" ? String(child) : child);
  }
  return element;
}
