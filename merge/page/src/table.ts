// The exits by reason, device, …: sortable, filterable, each row with its parts and distribution.
import type { Choice } from "./choice";
import { cell, choosable, clip, column, h, name, number, renew, replace, s, section, table } from "./dom";
import { kernelOf, knowsDurations, knowsGuest, whose } from "./known";
import { kLatencyBins, type Group, type Model } from "./model";
import { partsBar } from "./parts_bar";
import type { Change } from "./shares";
import { busyOf, sums } from "./strip";
import { counted, duration, exact, grouped, percent, spoken } from "./text";
import { kParts } from "./types";

const kShown = 25;
const kBar = 78; // px
const kSpark = 84;

interface Column {
  id: string;
  head: string;
  of: (row: Group) => number | string | null;
}

// All but the wait for a CPU and the halts themselves, as the report has it.
const cost = (row: Group): number => row.kernel_ns + row.user_ns + row.blocked_ns + row.unended_cost_ns;

export const kColumns: Column[] = [
  { id: "key", head: "", of: (row) => row.key },
  { id: "count", head: "Exits", of: (row) => row.count },
  { id: "total", head: "Total", of: (row) => row.total_ns },
  { id: "share", head: "Share", of: cost },
  { id: "mean", head: "Mean", of: (row) => row.mean_ns },
  { id: "p50", head: "p50", of: (row) => row.p50_ns },
  { id: "p90", head: "p90", of: (row) => row.p90_ns },
  { id: "p99", head: "p99", of: (row) => row.p99_ns },
  { id: "max", head: "Max", of: (row) => row.max_ns },
];

export function exitParts(row: Record<`${(typeof kParts)[number]}_ns`, number>, sum: number): SVGSVGElement {
  return partsBar(kParts.map((part) => [part, row[`${part}_ns`], part === "kernel" ? kernelOf(row) : part]), kBar, sum);
}

// The distribution on one logarithmic axis for all rows.
function sparkline(histogram: number[], first: number, last: number): SVGSVGElement {
  const svg = s("svg", { class: "spark", width: kSpark, height: 18, "aria-hidden": "true" });
  let most = 1;
  for (let i = 1; i < histogram.length; i += 2) most = Math.max(most, histogram[i] ?? 0);
  const width = kSpark / Math.max(1, last - first);
  let path = "";
  for (let i = 0; i + 1 < histogram.length; i += 2) {
    const size = Math.max(1.5, Math.sqrt((histogram[i + 1] ?? 0) / most) * 17);
    path += `M${(((histogram[i] ?? 0) - first) * width).toFixed(1)} 18v-${size.toFixed(1)}h${Math.max(1, width).toFixed(1)}v${size.toFixed(1)}z`;
  }
  svg.append(s("path", { d: path }));
  return svg;
}

export class Table {
  private readonly title = h("h2");
  readonly element = section("table", this.title);
  private readonly by: HTMLSelectElement;
  private readonly find: HTMLInputElement;
  private readonly body = h("tbody");
  private readonly under = h("p", { class: "dim" });
  private readonly more: HTMLButtonElement;
  private readonly whole: string; // of which the shares are

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    this.whole = knowsGuest(model.data) ? "busy time" : `${whose(model.data)} time`;
    this.by = h("select", { id: "by", change: () => this.change({ by: this.by.value }) },
      ...model.data.sets.map((set) => h("option", { value: set.by }, set.by.replace(/,/g, ", "))));
    this.find = h("input", { type: "search", id: "find", spellcheck: "false", autocomplete: "off",
      input: () => this.change({ query: this.find.value }) });
    this.more = h("button", { type: "button", class: "noprint", click: () => this.change({ all: true }) }, "Show all rows");
    this.element.append(
      h("div", { class: "controls noprint" }, h("label", { for: "by" }, "Exits by"), this.by,
        h("label", { for: "find" }, "with the words"), this.find),
      table("Exits, table", [], this.body), this.under, this.more);
  }

  private headings(choice: Choice): void {
    const cells = kColumns.map((column) => {
      const sorted = choice.sort === column.id;
      const head = column.id === "key" ? choice.by.replace(/,/g, " / ") : column.head;
      const button = h("button", { type: "button", "data-sort": column.id,
        click: () => this.change(sorted ? { up: !choice.up } : { sort: column.id, up: column.id === "key" }) },
        head, h("span", { class: "sign", "aria-hidden": "true" }, sorted ? (choice.up ? " ▲" : " ▼") : ""));
      return h("th", { scope: "col", class: column.id === "key" ? "" : "number",
        "aria-sort": sorted ? (choice.up ? "ascending" : "descending") : undefined },
        button, column.id === "share" && h("small", {}, `% of ${this.whole}`));
    });
    renew(this.element.querySelector("thead tr")!, "sort", ...cells, column("Parts", "of the total"), column("Latency", "log axis, height: √ of exits"));
  }

  render(choice: Choice): void {
    const all = this.model.groups(choice);
    const column = kColumns.find((one) => one.id === choice.sort) ?? kColumns[3]!;
    const words = choice.query.toLowerCase().split(/\s+/).filter(Boolean);
    const groups = all.filter((row) => words.every((word) => row.key.toLowerCase().includes(word)));
    groups.sort((a, b) => {
      const [x, y] = [column.of(a), column.of(b)];
      const order = typeof x === "string" ? x.localeCompare(String(y)) : (x ?? 0) - Number(y);
      // Halts are no overhead: they come below.
      return a.halt !== b.halt && choice.sort !== "key" ? Number(a.halt) - Number(b.halt) : choice.up ? order : -order;
    });
    this.by.value = choice.by;
    if (this.find.value !== choice.query) this.find.value = choice.query;
    this.headings(choice);
    this.heading(all, choice);
    const shown = choice.all ? groups : groups.slice(0, kShown);
    let [first, last] = [kLatencyBins, 1];
    for (const row of all) {
      const bins = row.histogram;
      if (bins.length) {
        first = Math.min(first, bins[0] ?? first);
        last = Math.max(last, (bins.at(-2) ?? 0) + 1);
      }
    }
    const whole = this.wholeOf(choice);
    renew(this.body, "row", ...shown.map((row) => this.row(row, choice, whole, first, last)), groups.length === 0 && h("tr", {},
      h("td", { colspan: kColumns.length + 2 }, all.length === 0 ? "No exits are in what is chosen." : "No row has these words.")));
    const set = this.model.data.sets.find((one) => one.by === choice.by);
    const left = !all.some((row) => row.approximate) ? (set?.rows_left_out ?? 0) : 0;
    this.under.textContent = [
      `${grouped(shown.length)} of ${grouped(all.length)} rows`,
      groups.length < all.length ? `${grouped(groups.length)} have these words` : "",
      left > 0 ? `${grouped(left)} more are not on this page: trapline report prints them` : "",
      all.some((row) => row.approximate) ? "counts, totals and parts are exact; ≈ is known to 12 % of its value" : "",
    ].filter(Boolean).join("; ") + ".";
    this.more.hidden = shown.length === groups.length;
    this.more.textContent = `Show all ${grouped(groups.length)} rows`;
  }

  private wholeOf(choice: Choice): number {
    const all = sums(this.model.data.vcpus, choice.time);
    return Math.max(1, knowsGuest(this.model.data) ? busyOf(all) : all.time);
  }

  private heading(rows: Group[], choice: Choice): void {
    const busiest = rows.filter((row) => !row.halt).sort((a, b) => cost(b) - cost(a))[0];
    if (busiest && !knowsDurations(this.model.data)) {
      const most = rows.reduce((a, b) => (b.count > a.count ? b : a));
      const share = percent(most.count / rows.reduce((n, row) => n + row.count, 0));
      replace(this.title, name(clip(spoken(most.key), 60)), ` was ${share} of the exits; how long they took was not recorded`);
      return;
    }
    replace(this.title, ...(busiest
      ? [name(clip(spoken(busiest.key), 60)), ` cost ${percent(cost(busiest) / this.wholeOf(choice))} of ${knowsGuest(this.model.data) ? "the " : ""}${this.whole}, in ${counted(busiest.count, "exit")}`]
      : [rows.length ? "All of these exits are halts: the guest had nothing to do" : "No exits are in what is chosen"]));
  }

  private row(row: Group, choice: Choice, whole: number, first: number, last: number): HTMLTableRowElement {
    const chosen = choice.rows.some((one) => one.by === choice.by && one.key === row.key);
    const others = choice.rows.filter((one) => one.by !== choice.by);
    const choose = (): void =>
      this.change({ rows: chosen ? others : [...others, { by: choice.by, key: row.key }] });
    const about = row.approximate ? "≈\u202f" : "";
    const known = knowsDurations(this.model.data);
    const time = (ns: number | null): number | null => (known ? ns : null);
    const cells = [
      number(grouped(row.count), ""),
      number(duration(time(row.total_ns)), exact(time(row.total_ns))),
      number(known ? percent(cost(row) / whole).replace("%", "") : "–", ""),
      number(duration(time(row.mean_ns)), exact(time(row.mean_ns))),
      ...(["p50", "p90", "p99", "max"] as const).map((p) => {
        const [ns, sign] = [time(row[`${p}_ns`]), time(row[`${p}_ns`]) === null ? "" : about];
        return number(sign + duration(ns), sign + exact(ns));
      }),
    ];
    return choosable(row.key, chosen, choose, name(row.key), row.halt && h("small", {}, "halt, no overhead"),
      ...cells, cell(known && exitParts(row, row.total_ns)), cell(known && sparkline(row.histogram, first, last)));
  }
}
