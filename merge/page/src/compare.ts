// Two sides on one page: what changed, with its interval, over all of their runs; the vCPUs' time and the
// distributions of the first run of each.
import { blocks, Chart, drawDistribution, latencyRange } from "./chart";
import { kStart } from "./choice";
import { changeLook, clip, entitle, h, name, nothing, replace, s, section, swatch, widthOf } from "./dom";
import { Drawing } from "./drawing";
import { losses, recorded } from "./head";
import { kernelOf, signOf } from "./known";
import { binOf, Model } from "./model";
import { drawRows, emptyTable, number, type Column } from "./rows";
import { Strips, sums } from "./strip";
import { duration, exact, grouped, percent, quoted, sig3, useUnit, visible } from "./text";
import { kMetrics, kStates, type Comparison, type Fields, type Metric, type Report } from "./types";
import { unpack } from "./unpack";

const kInterval = 150; // px of an interval's picture
const kHeight = 190;
const kSides = ["before", "after"] as const;
const kNames: Record<Metric, string> = {
  rate: "exits a second", mean: "mean", p50: "p50", p99: "p99", share: "share of the vCPUs' time", cost: "time per guest time",
  kernel: "kernel, mean", user: "user (QEMU), mean", preempted: "preempted, mean", blocked: "blocked, mean", halted: "halted, mean",
};

function value(metric: Fields, side: "before" | "after"): string {
  const n = metric[side];
  if (n === null) return "–";
  if (metric.unit === "per_second") return `${sig3(n)}/s`;
  return metric.unit === "share" ? percent(n) : duration(n);
}

const signed = (part: number): string => `${part < 0 ? "−" : "+"}${sig3(Math.abs(part) * 100)}%`;

// Returns whether the interval spans more than a factor of ten, which no percentage can say.
function isVague({ low: from, high: to }: Fields): boolean {
  return typeof from === "number" && typeof to === "number" && from > -1 && 1 + to > 10 * (1 + from);
}

// Returns "+12%"; "new" or "gone" for a row that is on one side only.
function change(metric: Fields): string {
  const { before, after, change: part } = metric;
  if (isVague(metric) && !metric.proven) return "–";
  if (part === null) return before === 0 && after !== null && after > 0 ? "new" : "–";
  return part <= -1 ? "gone" : signed(part);
}

function interval(metric: Fields): string {
  const { low: from, high: to } = metric;
  if (isVague(metric)) return "too few runs to say";
  return from === null || from === undefined || to === null || to === undefined ? "" : `${signed(from)} to ${signed(to)}`;
}

function verdict(metric: Fields): string {
  if (!metric.tested) return "too little to tell";
  return metric.proven ? "proven" : "not proven";
}

// Returns each run's figure, for the tooltip of a side's figure.
function runs(metric: Fields, side: "before" | "after"): string {
  const all = metric[`${side}_runs`];
  return (all as (number | null)[]).map((n) => (n === null ? "–" : metric.unit === "ns" || metric.unit === "cycles" ? exact(Math.round(n)) : String(n))).join(", ");
}

// Draws the interval on an axis that all rows share; the line in the middle is no change.
function intervalPicture(metric: Fields, most: number): SVGSVGElement {
  const svg = s("svg", { class: "range", width: kInterval, height: 16, role: "img", "aria-label": interval(metric) || verdict(metric) });
  const x = (part: number): number => kInterval / 2 + Math.max(-1, Math.min(1, part / most)) * (kInterval / 2 - 2);
  svg.append(s("path", { class: "tick", d: `M${kInterval / 2} 0V16` }));
  const { low: from, high: to, change: at } = metric;
  if (!metric.tested || from === null || from === undefined || to === null || to === undefined) return svg;
  svg.append(s("rect", { class: metric.proven ? "mid" : "wide", x: x(from), y: 4, width: Math.max(1.5, x(to) - x(from)), height: 8 }));
  if (typeof at === "number") svg.append(s("rect", { class: "median", x: x(at) - 1, y: 2, width: 2.5, height: 12 }));
  return svg;
}

interface View {
  metric: Metric;
  row: string;
}

class Changes {
  readonly element: HTMLElement;
  private readonly table = emptyTable("Changes");
  private readonly metric: HTMLSelectElement;

  constructor(
    private readonly data: Comparison,
    kernel: string,
    private readonly choose: (view: Partial<View>) => void,
  ) {
    this.metric = h("select", { id: "metric", change: () => this.choose({ metric: this.metric.value as Metric }) },
      ...kMetrics.map((metric) => h("option", { value: metric }, metric === "kernel" ? `${kernel}, mean` : kNames[metric])));
    this.element = section("changes", this.heading(),
      ...data.warnings.map((text: string) => h("p", { class: "alert", role: "note" }, text)),
      h("div", { class: "controls noprint" }, h("label", { for: "metric" }, "Figure"), this.metric),
      this.table,
      h("p", { class: "dim" }, `${this.method()} ` +
        (data.left_out ? `${grouped(data.left_out)} rows with less time are left out: trapline diff --top 0 prints them. ` : "") + "Choose a row to see its distributions."));
  }

  // Says what the figures can prove, and by which test.
  private method(): string {
    const { method, before, after, tests, splits } = this.data;
    const sides = `${grouped(before.length)} run${before.length === 1 ? "" : "s"} before and ${grouped(after.length)} after`;
    if (method === "none") return `These are the differences between these recordings. ${sides} cannot tell whether other runs differ too: record at least three of each side, better five.`;
    const how = `Student's t of the runs' logarithms${method === "student" ? "" : `, and the largest t of ${grouped(splits)} splits of the runs`}`;
    return `${sides}: a change is proven where its interval, which holds together with those of all ${grouped(tests)} tests, leaves out "no change" (${how}).`;
  }

  private heading(): (Node | string)[] {
    const { rows, proven_changes, method } = this.data;
    const cost = (row: Fields): number => Math.abs((row.cost.after ?? 0) - (row.cost.before ?? 0));
    const none = method === "none";
    const real = rows.filter((row) => !row.halts && (none ? row.cost.change !== null : row.cost.proven)).sort((a, b) => cost(b) - cost(a))[0];
    const count = none ? "Differences between these recordings, nothing proven" : proven_changes === 0 ? "No change is proven" : `${grouped(proven_changes)} change${proven_changes === 1 ? " is" : "s are"} proven`;
    return real ? [`${count}; for each second that the guest ran, `, name(clip(real.key, 50), this.data.by), ` took ${duration((real.cost.before ?? 0) * 1e9)} before, ${duration((real.cost.after ?? 0) * 1e9)} after`] : [count];
  }

  render(view: View): void {
    this.metric.value = view.metric;
    const most = Math.max(0.05, ...this.data.rows.flatMap((row) => [row[view.metric].low, row[view.metric].high]).map((part) => Math.min(2, Math.abs(part ?? 0))));
    const metric = (row: Fields): Fields => row[view.metric];
    const figure = (title: string, text: (row: Fields) => string, more: (row: Fields) => string = () => ""): Column => [h("th", { scope: "col", class: "number" }, title), "node", (row) => number(text(row), more(row))];
    drawRows(this.table, [[this.data.by.replace(/,/g, " / "), "node", (row) => [name(row.key, this.data.by), row.halts && h("small", {}, "halt, no overhead")]],
      ["Exits before", "count", "before_count"], ["after", "count", "after_count"],
      figure("Before", (row) => value(metric(row), "before"), (row) => runs(metric(row), "before")), figure("After", (row) => value(metric(row), "after"), (row) => runs(metric(row), "after")),
      figure("Change", (row) => change(metric(row))), figure(`${Math.round(this.data.confidence * 1000) / 10} % interval`, (row) => interval(metric(row))), ["Interval", "node", (row) => intervalPicture(metric(row), most), "line: no change"],
      [this.data.method === "none" ? "" : "Is it proven", "node", (row) => h("td", { class: metric(row).proven ? "real" : "dim" }, this.data.method === "none" ? "" : verdict(metric(row)))]],
    this.data.rows, (row) => ({ key: row.key, chosen: view.row === row.key, choose: () => this.choose({ row: row.key }) }));
  }
}

// Shows the vCPUs' time of both sides. `counted` is the number of runs of each side.
function bothShares(models: Model[], counted: number[], kernel: string): { element: HTMLElement; draw: () => void } {
  const strips = models.map((model) => new Strips(model));
  const part = models.map(({ data }) => sums(data.vcpus, null)).map((all) => percent(all.guest / Math.max(1, all.time)));
  const element = section("shares", [`The guest ran ${part[0]} of the vCPUs' time before, ${part[1]} after${counted.some((n) => n > 1) ? ", in the first run of each side" : ""}`],
    ...models.flatMap((model, i) => [h("h3", {}, `${kSides[i]}: `,
      name(model.data.tables.sources?.rows[0]?.path ?? ""), `, ${duration(model.data.duration_ns)}${counted[i]! > 1 ? `, the first of ${grouped(counted[i]!)} runs` : ""}`), strips[i]!.element,
      model.begin > 0 && h("p", { class: "dim" }, model.before("folded away"))]),
    h("p", { class: "dim" }, `Order of the states, from the top: ${[...kStates].reverse().map((state) => (state === "kernel" ? kernel : signOf(state))).join(", ")}. Each recording has the whole width.`));
  return { element, draw: () => { for (const one of strips) one.render(kStart, false); } };
}

class BothLatencies {
  private readonly chart = new Chart({ class: "bars", height: kHeight, series: kSides.map((side, i) => ({ ...(side === "before" ? { fill: "dim", alpha: 0.75 } : { fill: "heat" }), paths: blocks(i, kSides.length) })),
    pointed: (ns) => this.read(binOf(ns)) });
  private readonly caption = h("figcaption");
  private readonly picture = h("figure", {}, this.caption, this.chart.element);
  private readonly reading = h("p", { class: "reading" });
  readonly element = section("latency", [], this.picture, this.reading);
  private sides: Map<number, number>[] = []; // shares by latency bin

  constructor(
    private readonly models: Model[],
    private readonly data: Comparison,
  ) {}

  // Returns the latency bins of one side's row; empty if its page holds no such row.
  private bins(model: Model, key: string): [number, number][] {
    if ((this.data.rows_of ?? "exits") !== "exits") return []; // the cells are of exits
    return model.groups({ ...kStart, by: this.data.by }).find((group) => group.key === key)?.histogram ?? [];
  }

  render(view: View): void {
    const row = this.data.rows.find((one) => one.key === view.row);
    const sides = this.models.map((model) => this.bins(model, view.row));
    if (!row || sides.every((bins) => bins.length === 0)) {
      nothing(this.element, `${row ? clip(row.key, 60) : "No row"}: the page has no distribution by these values`, "trapline diff --by reason, device, function or vcpu");
      return;
    }
    this.reading.textContent = "Point at a bar to read it.";
    entitle(this.element, name(clip(row.key, 60), this.data.by), `: half took at most ${value(row.p50, "before")} before, ${value(row.p50, "after")} after; 99 % at most ${value(row.p99, "before")}, ${value(row.p99, "after")}`);
    this.draw(sides, row);
  }

  private draw(sides: [number, number][][], row: Fields): void {
    this.sides = sides.map((side) => {
      const count = Math.max(1, side.reduce((n, [, more]) => n + more, 0));
      return new Map(side.map(([bin, n]) => [bin, n / count]));
    });
    const most = Math.max(...this.sides.flatMap((side) => [...side.values()]));
    drawDistribution(this.chart, "Latency distributions before and after", widthOf(this.picture), { to: most, label: "share of the exits", say: percent }, this.sides);
    const counted = { before: row.before_count, after: row.after_count };
    replace(this.caption, ...kSides.flatMap((side) => [swatch(side), `${side}: ${grouped(counted[side])} exits   `]));
  }

  private read(bin: number): void {
    this.reading.textContent = `${latencyRange(bin)}: ${this.sides.map((side, i) => `${percent(side.get(bin) ?? 0)} of the exits ${kSides[i]}`).join(", ")}`;
  }
}

// The options that choose other rows than exits.
const kOptions: Record<string, string> = { calls: "--guest", interrupts: "--irq", waits: "--waits", threads: "--host-cpu", faults: "--faults" };

export function startComparison(packed: Report[], data: Comparison, main: HTMLElement, header: (title: (Node | string)[], command: () => string, redraw: () => void) => HTMLElement): void {
  const recordings = packed.map(unpack);
  useUnit(data.time_unit);
  const models = recordings.map((recording) => new Model(recording));
  const words = new URLSearchParams(location.hash.replace(/^#/, ""));
  const asked = words.get("metric") as Metric | null;
  const known = (key: string | null): key is string => data.rows.some((row) => row.key === key);
  const first = data.rows.find((row) => !row.halts) ?? data.rows[0];
  let view: View = { metric: asked && kMetrics.includes(asked) ? asked : "mean", row: known(words.get("row")) ? words.get("row")! : (first?.key ?? "") };
  const kernel = kernelOf(models.flatMap((model) => model.data.vcpus)[0]);
  const changes = new Changes(data, kernel, (next) => {
    view = { ...view, ...next };
    history.replaceState(null, "", `#${new URLSearchParams({ metric: view.metric, row: view.row }).toString()}`);
    drawing.change();
  });
  const shares = bothShares(models, kSides.map((side) => data[side].length), kernel);
  const latencies = new BothLatencies(models, data);
  const drawing = new Drawing([
    { element: changes.element, draw: () => changes.render(view) },
    shares,
    { element: latencies.element, draw: () => latencies.render(view) },
  ], () => {});
  const paths = (side: "before" | "after"): string[] => data[side].map((one) => one.path);
  const single = data.before.length === 1 && data.after.length === 1;
  const sides = single ? [...paths("before"), ...paths("after")] : ["--before", ...paths("before"), "--after", ...paths("after")];
  const option = kOptions[data.rows_of];
  const command = ["trapline", "diff", ...sides, ...(option ? [option] : ["--by", data.by])].map(quoted).join(" ");
  const names = kSides.map((side) => data[side][0]?.path.split("/").filter(Boolean).at(-1) ?? side);
  document.title = `${visible(names.join(" and "))}: what changed`;
  main.append(
    header(["What changed ", h("small", {}, "from ", name(names[0]!), " to ", name(names[1]!))], () => command, () => { changeLook(); drawing.change(); }),
    h("p", {}, h("code", { id: "command" }, visible(command))),
    ...recordings.flatMap((recording, i) => losses(recording, kSides[i]!)), changes.element, latencies.element, shares.element,
    ...recordings.map((recording, i) => recorded(recording, kSides[i]!)));
  drawing.change();
  drawing.all();
}
