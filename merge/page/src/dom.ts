// Elements. Text goes in as text nodes only; nothing on this page is parsed as markup.
import { visible } from "./text";

export type Child = Node | string | null | undefined | false | 0;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void) | undefined>;

// Returns the children that there are, texts with invisible characters written out.
const shown = (children: Child[]): (Node | string)[] =>
  children.flatMap((child) => (child ? [typeof child === "string" ? visible(child) : child] : []));

// Returns what makes elements with attributes, listeners and children. `create` makes an empty one.
function maker<Tags>(create: (tag: string) => Element) {
  return <K extends keyof Tags & string>(tag: K, attributes: Attributes = {}, ...children: Child[]): Tags[K] => {
    const element = create(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : visible(String(value)));
    }
    element.append(...shown(children));
    return element as Tags[K];
  };
}
export const h = maker<HTMLElementTagNameMap>((tag) => document.createElement(tag));
export const s = maker<SVGElementTagNameMap>((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));

// Buttons, and paragraphs of less weight.
export const button = (attributes: Attributes, ...children: Child[]): HTMLButtonElement => h("button", { type: "button", ...attributes }, ...children);
export const dim = (...children: Child[]): HTMLParagraphElement => h("p", { class: "dim" }, ...children);

// Makes a section with its heading.
export function section(id: string, title: Child[], ...children: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, ...title), ...children);
}

// Gives a section another heading.
export function entitle(section: Element, ...title: Child[]): void {
  section.classList.remove("nothing");
  replace(section.querySelector("h2")!, ...title);
}

// Reduces a section to its heading, which says why it shows nothing and which command fills it.
export function nothing(section: HTMLElement, why: string, fill = ""): HTMLElement {
  entitle(section, why, fill && ": ", fill && h("code", {}, fill));
  section.classList.add("nothing");
  return section;
}

// The colour of a state or a part beside its name.
export const swatch = (state: string): HTMLElement => h("span", { class: `swatch b-${state}`, "aria-hidden": "true" });

// Explanations of the CPU's reasons, by name.
const glosses = new Map<string, string>();
export const useGlosses = (all: string[]): void => { for (const one of all) glosses.set(one.split(": ")[0]!, one); };

// Makes a name from a recording, apart from the direction of the text around it. `by`: the dimensions of a row's key, in
// which "-" reads "no device" or "not known". A VM whose process is not known (~) has the name of its first thread.
export function name(text: string, by = ""): HTMLElement {
  const parts = text.split(" / ");
  const dimensions = by.split(",");
  const read = (part: string, i: number): string =>
    part === "-" ? (dimensions[i] === "device" ? "no device" : "not known") : part.replace(/(^|VM )~(?=\d)/, "$1of thread ");
  // A long name may break where its words end.
  const words = parts.map(read).join(" / ").split(/(?<=\.\.|[/;])/);
  return h("bdi", { class: "name", title: glosses.get(parts[0]!) }, ...words.flatMap((word, i) => (i ? [h("wbr"), word] : [word])));
}

export const replace = (parent: Element, ...children: Child[]): void => parent.replaceChildren(...shown(children));

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

// Returns a function that tells whether the look, or any of the values given to it, has changed since its last call.
export function watch(): (...values: unknown[]) => boolean {
  let last: unknown[] = [];
  return (...values) => {
    const before = last;
    last = [look, ...values];
    return last.some((value, i) => value !== before[i]);
  };
}

// Returns the width that a picture may have. The browser lays out all changes when asked, so it is asked
// once for each look.
export function widthOf(element: Element, fallback = 900): number {
  const known = widths.get(element);
  if (known !== undefined) return known;
  const width = Math.floor(element.clientWidth);
  if (width <= 0) return fallback;
  widths.set(element, width);
  return width;
}
