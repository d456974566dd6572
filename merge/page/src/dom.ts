// Elements. Text goes in as text nodes only; nothing on this page is parsed as markup.
import { duration, exact, visible } from "./text";

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

const kSvg = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else {
      element.setAttribute(name, value === true ? "" : visible(String(value)));
    }
  }
  for (const child of children) {
    if (child) element.append(typeof child === "string" ? visible(child) : child);
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(kSvg, tag) as SVGElementTagNameMap[K];
  fill(element, attributes, children);
  return element;
}

// Makes a section with its heading. A view that changes its title passes the heading as an element.
export function section(id: string, title: HTMLElement | Child[], ...children: Child[]): HTMLElement {
  const heading = Array.isArray(title) ? h("h2", {}, ...title) : title;
  heading.id = `${id}-title`;
  return h("section", { id, "aria-labelledby": heading.id }, heading, ...children);
}

// Makes a table that scrolls by itself if it is too wide. A view that changes its rows passes the body.
export function table(label: string, heads: HTMLElement[], rows: HTMLElement | HTMLElement[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads)), Array.isArray(rows) ? h("tbody", {}, ...rows) : rows));
}

// Headings of a column of texts and of a column of numbers.
export const column = (text: string, unit = ""): HTMLElement => h("th", { scope: "col" }, text, unit && h("small", {}, unit));
export const numbers = (text: string, unit = ""): HTMLElement => h("th", { scope: "col", class: "number" }, text, unit && h("small", {}, unit));

// The heading of a row, and its cells.
export const first = (...children: Child[]): HTMLElement => h("th", { scope: "row" }, ...children);
export const cell = (...children: Child[]): HTMLElement => h("td", {}, ...children);
export const number = (text: string, title = ""): HTMLElement => h("td", { class: "number", title }, text);
export const time = (ns: number | null): HTMLElement => number(duration(ns), exact(ns));

// Makes a row that can be chosen by its button, or by a click anywhere in the row. `under` stands below the button.
export function choosable(key: string, chosen: boolean, choose: () => void, about: Child, under: Child, ...cells: Child[]): HTMLTableRowElement {
  return h("tr", { class: chosen ? "chosen" : "", "data-key": key, click: (event) => { if (!(event.target as Element).closest("button")) choose(); } },
    first(h("button", { type: "button", "data-row": key, "aria-pressed": String(chosen), click: choose }, h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "● " : "○ "), about), under),
    ...cells);
}

// Replaces the children and keeps the focus on the element with the same value of the `data` attribute.
export function renew(body: Element, data: string, ...children: Child[]): void {
  const focused = (document.activeElement as HTMLElement | null)?.dataset?.[data];
  replace(body, ...children);
  if (focused === undefined) return;
  for (const one of body.querySelectorAll<HTMLElement>(`[data-${data}]`)) if (one.dataset[data] === focused) one.focus();
}

// What the CPU's reasons mean, by name.
const glosses = new Map<string, string>();
export const useGlosses = (all: string[]): void => { for (const one of all) glosses.set(one.split(": ")[0]!, one); };

// A name from a recording, kept apart from the direction of the text around it; "-" is not known.
export function name(text: string): HTMLElement {
  const parts = text.split(" / ");
  // A long one breaks where its words end.
  const words = parts.map((part) => (part === "-" ? "not known" : part)).join(" / ").split(/(?<=\.\.|[/;])/);
  return h("bdi", { class: "name", title: glosses.get(parts[0]!) }, ...words.flatMap((word, i) => (i ? [h("wbr"), word] : [word])));
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((c): c is Node | string => !!c).map((c) => (typeof c === "string" ? visible(c) : c)));
}

export function clip(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}

// Counts the changes of the page's width and theme: what was drawn before is not right any more.
let look = 0;
let widths = new WeakMap<Element, number>();

export const currentLook = (): number => look;
export function changeLook(): void {
  ++look;
  widths = new WeakMap();
}

// The width a picture may have. The browser lays out all that was changed before it tells: it is asked
// once for each look.
export function widthOf(element: Element, fallback = 900): number {
  const known = widths.get(element);
  if (known !== undefined) return known;
  const width = Math.floor(element.clientWidth);
  if (width <= 0) return fallback;
  widths.set(element, width);
  return width;
}
