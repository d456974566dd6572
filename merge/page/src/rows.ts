// Tables: a line for each column says its title, how its values are drawn, and which value of a row it has.
import { button, type Child, dim, h, name, replace, s } from "./dom";
import { signOf } from "./known";
import { duration, exact, grouped, kUnknown, moment, percent } from "./text";
import type { Fields } from "./types";

const kShown = 25;

// How a column draws its values; null and undefined are not known.
const kKinds = {
  name: (text: string) => cell(name(text)),
  count: (n: number) => number(grouped(n)),
  time: (ns: number) => number(duration(ns), exact(ns)),
  share: (part: number) => number(percent(part)), // its column's title says of what
  moment: (ns: number) => number(moment(ns), exact(ns)),
  node: (what: Child | Child[]) => cell(...[what].flat()),
};
// The kind of column for each unit, for tables whose data describes the columns.
const kOfUnit = { text: "name", count: "count", duration: "time", share: "share" } as const;
type Kind = keyof typeof kKinds;

// `of`: a key of the row, or a function of it, which may make the cell itself. `under` stands below the title.
export type Column<R = Fields> = [title: string | HTMLElement, kind: Kind, of: (keyof R & string) | ((row: R, at: number) => unknown), under?: string];

export const cell = (...children: Child[]): HTMLElement => h("td", {}, ...children);
export const number = (text: string, title = ""): HTMLElement => h("td", { class: "number", title }, text);

// How a row is chosen: by its button, or by a click anywhere in the row. The focus is kept by `key`.
export interface Choosable {
  key: string;
  chosen: boolean;
  choose: () => void;
}

function drawCell<R>(row: R, at: number, [, kind, of]: Column<R>): HTMLElement {
  const value = typeof of === "function" ? of(row, at) : row[of];
  if (value instanceof HTMLTableCellElement) return value;
  if (value !== null && value !== undefined) return kKinds[kind](value as never);
  return kind === "name" || kind === "node" ? cell(kUnknown) : number(kUnknown);
}

function drawRow<R>(row: R, at: number, columns: Column<R>[], choosable: Choosable | undefined): HTMLTableRowElement {
  const [first, ...cells] = columns.map((column) => drawCell(row, at, column));
  const heading = h("th", { scope: "row", class: first!.className, title: first!.title || undefined }, ...(first!.childNodes as Iterable<Node>));
  if (!choosable) return h("tr", {}, heading, ...cells);
  const { key, chosen, choose } = choosable;
  // The button holds the name alone, without what stands below it.
  const [shown = "", ...below] = [...heading.childNodes];
  replace(heading, button({ "data-row": key, "aria-pressed": String(chosen), click: choose }, h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "● " : "○ "), shown as Node), ...(below as Node[]));
  return h("tr", { class: chosen ? "chosen" : "", "data-key": key, click: (event) => { if (!(event.target as Element).closest("button")) choose(); } }, heading, ...cells);
}

// Makes a table that scrolls by itself if it is too wide, or with the class "tall" too high, without its rows.
export const emptyTable = (label: string, more = ""): HTMLElement =>
  h("div", { class: `scroll${more && ` ${more}`}`, tabindex: 0, role: "region", "aria-label": `${label}, table` }, h("table", {}, h("thead", {}, h("tr")), h("tbody")));

// Draws the rows, and keeps the focus and the place to which the table is scrolled. `none` stands where there are none.
export function drawRows<R>(table: HTMLElement, columns: Column<R>[], rows: R[], choosable?: (row: R, at: number) => Choosable, none = ""): void {
  const focused = (document.activeElement as HTMLElement | null)?.dataset ?? {};
  replace(table.querySelector("thead tr")!, ...columns.map(([title, kind, , under]) => (title instanceof HTMLElement ? title
    : h("th", { scope: "col", class: kind === "name" || kind === "node" ? "" : "number" }, title, under && h("small", {}, under)))));
  replace(table.querySelector("tbody")!, ...rows.map((row, at) => drawRow(row, at, columns, choosable?.(row, at))),
    rows.length === 0 && none && h("tr", {}, h("td", { colspan: columns.length }, none)));
  for (const key of ["row", "sort"]) {
    if (focused[key] === undefined || table.contains(document.activeElement)) continue;
    for (const one of table.querySelectorAll<HTMLElement>(`[data-${key}]`)) if (one.dataset[key] === focused[key]) one.focus();
  }
}

// Makes a table of the first rows. `more`: the command that prints the others.
export function rowsTable<R>(label: string, columns: Column<R>[], rows: R[], left_out = 0, more = "", most = kShown): HTMLElement {
  const table = emptyTable(label);
  drawRows(table, columns, rows.slice(0, most));
  const left = Math.max(0, rows.length - most) + left_out;
  return h("div", {}, table, left > 0 && dim(`${grouped(left)} more rows: ${more || "the command above"} prints them.`));
}

// Makes a table whose data describes the columns by their titles and units.
export function describedTable(label: string, { columns = [], rows, left_out }: { columns?: { title: string; unit: keyof typeof kOfUnit }[]; rows: Fields[]; left_out: number }, more = ""): HTMLElement {
  return rowsTable(label, columns.map(({ title, unit }, i): Column => [title, kOfUnit[unit], (row) => row[i]]), rows, left_out, more);
}

// Draws times side by side as a bar, with their shares as its label. `all`: the time that is `width` px wide.
export function coloured(times: [name: string, colour: string, ns: number][], width: number, all?: number): SVGSVGElement {
  const sum = Math.max(1, all ?? times.reduce((n, [, , ns]) => n + ns, 0));
  const svg = s("svg", { class: "parts", width, height: 12, role: "img", "aria-label": times.map(([text, , ns]) => `${text} ${percent(ns / sum)}`).join(", ") || "no time" });
  let left = 0;
  for (const [text, colour, ns] of times) {
    const size = (ns / sum) * width;
    svg.append(s("rect", { class: `p-${colour}`, x: left, width: size, height: 12 }, s("title", {}, `${text} ${exact(ns)}`)));
    left += size;
  }
  return svg;
}

// Draws the parts of a row's time as a bar. `all`: the time that is `width` px wide.
export const partsBar = (row: Fields, parts: readonly string[], width = 150, all?: number): SVGSVGElement =>
  coloured(parts.map((part): [string, string, number] => [signOf(part, row), part, row[`${part}_ns`] ?? 0]).filter(([, , ns]) => ns > 0), width, all);

// Returns the path of bars on the floor of a small picture. A bar goes from `left` to `right`, in px, and has a part of the height.
export const barsPath = (bars: [left: number, right: number, part: number][], height: number): string => bars.map(([left, right, part]) => {
  const size = Math.max(1.5, part * (height - 1)).toFixed(1);
  return `M${left.toFixed(1)} ${height}v-${size}H${Math.max(left + 1, right).toFixed(1)}v${size}z`;
}).join("");
