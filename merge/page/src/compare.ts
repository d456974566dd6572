// Two sides on one page: what changed, with its interval, over all of their runs; the vCPUs' time and the
// distributions of the first run of each.
import { blocks, Chart } from "./chart";
import { cell, changeLook, choosable, clip, column, h, name, number, numbers, renew, replace, s, section, table, widthOf } from "./dom";
import { drawDistribution, latencyRange } from "./distribution";
import { Drawing } from "./drawing";
import { foot, head } from "./head";
import { kernelOf } from "./known";
import { binOf, Model } from "./model";
import { kSigns, Strips, sums } from "./strip";
import { duration, exact, grouped, percent, quoted, sig3, useUnit, visible } from "./text";
import { kMetrics, kStates, type ComparedRow, type Comparison, type Metric, type MetricChange, type Report } from "./types";
import { unpack } from "./unpack";

const kInterval = 150; // px of an interval's picture
const kHeight = 190;
const kSides = ["before", "after"] as const;
const kNames: Record<Metric, string> = {
  rate: "exits a second", mean: "mean", p50: "p50", p99: "p99", share: "share of the vCPUs' time", cost: "time per guest time",
  kernel: "kernel, mean", user: "user (QEMU), mean", preempted: "preempted, mean", blocked: "blocked, mean", halted: "halted, mean",
};

function value(metric: MetricChange, side: "before" | "after"): string {
  const n = metric[side];
  if (n === null) return "–";
  if (metric.unit === "per_second") return `${sig3(n)}/s`;
  return metric.unit === "share" ? percent(n) : duration(n);
}

const signed = (part: number): string => `${part < 0 ? "−" : "+"}${sig3(Math.abs(part) * 100)}%`;

// No percentage says an interval that spans more than ten times.
function isVague({ low: from, high: to }: MetricChange): boolean {
  return typeof from === "number" && typeof to === "number" && from > -1 && 1 + to > 10 * (1 + from);
}

// "+12%"; what is on one side only has no number.
function change(metric: MetricChange): string {
  const { before, after, change: part } = metric;
  if (isVague(metric) && !metric.proven) return "–";
  if (part === null) return before === 0 && after !== null && after > 0 ? "new" : "–";
  return part <= -1 ? "gone" : signed(part);
}

function interval(metric: MetricChange): string {
  const { low: from, high: to } = metric;
  if (isVague(metric)) return "too few runs to say";
  return from === null || from === undefined || to === null || to === undefined ? "" : `${signed(from)} to ${signed(to)}`;
}

function verdict(metric: MetricChange): string {
  if (!metric.tested) return "too little to tell";
  return metric.proven ? "proven" : "not proven";
}

// Each run's figure, for the tooltip of a side's.
function runs(metric: MetricChange, side: "before" | "after"): string {
  const all = metric[`${side}_runs`];
  return all.map((n) => (n === null ? "–" : metric.unit === "ns" || metric.unit === "cycles" ? exact(Math.round(n)) : String(n))).join(", ");
}

// The interval on an axis that all rows share; the line in the middle is no change.
function intervalPicture(metric: MetricChange, most: number): SVGSVGElement {
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
  private readonly body = h("tbody");
  private readonly metric: HTMLSelectElement;

  constructor(
    private readonly data: Comparison,
    kernel: string,
    private readonly choose: (view: Partial<View>) => void,
  ) {
    this.metric = h("select", { id: "metric", change: () => this.choose({ metric: this.metric.value as Metric }) },
      ...kMetrics.map((metric) => h("option", { value: metric }, metric === "kernel" ? `${kernel}, mean` : kNames[metric])));
    const confidence = `${Math.round(data.confidence * 1000) / 10} %`;
    this.element = section("changes", this.heading(),
      ...data.warnings.map((text) => h("p", { class: "alert", role: "note" }, text)),
      h("div", { class: "controls noprint" }, h("label", { for: "metric" }, "Figure"), this.metric),
      table("Changes, table", [column(data.by.replace(/,/g, " / ")), ...["Exits before", "after", "Before", "After", "Change", `${confidence} interval`].map((text) => numbers(text)),
        column("Interval", "line: no change"), column(this.data.method === "none" ? "" : "Is it proven")], this.body),
      h("p", { class: "dim" }, `${this.method()} ` +
        (data.rows_left_out ? `${grouped(data.rows_left_out)} rows with less time are left out: trapline diff --top 0 prints them. ` : "") + "Choose a row to see its distributions."));
  }

  // How far the figures go.
  private method(): string {
    const { method, before, after, tests, splits } = this.data;
    const sides = `${grouped(before.length)} run${before.length === 1 ? "" : "s"} before and ${grouped(after.length)} after`;
    if (method === "none") return `These are the differences between these recordings. ${sides} cannot tell whether other runs differ too: record at least three of each side, better five.`;
    const how = `Student's t of the runs' logarithms${method === "student" ? "" : `, and the largest t of ${grouped(splits)} splits of the runs`}`;
    return `${sides}: a change is proven where its interval, which holds together with those of all ${grouped(tests)} tests, leaves out "no change" (${how}).`;
  }

  private heading(): (Node | string)[] {
    const { rows, proven_changes, method } = this.data;
    const cost = (row: ComparedRow): number => Math.abs((row.cost.after ?? 0) - (row.cost.before ?? 0));
    const none = method === "none";
    const real = rows.filter((row) => !row.halts && (none ? row.cost.change !== null : row.cost.proven)).sort((a, b) => cost(b) - cost(a))[0];
    const count = none ? "Differences between these recordings, nothing proven" : proven_changes === 0 ? "No change is proven" : `${grouped(proven_changes)} change${proven_changes === 1 ? " is" : "s are"} proven`;
    return real ? [`${count}; `, name(clip(real.key, 50)), ` costs ${value(real.cost, "before")} of the guest's time before, ${value(real.cost, "after")} after`] : [count];
  }

  render(view: View): void {
    this.metric.value = view.metric;
    const most = Math.max(0.05, ...this.data.rows.flatMap((row) => [row[view.metric].low, row[view.metric].high]).map((part) => Math.min(2, Math.abs(part ?? 0))));
    renew(this.body, "row", ...this.data.rows.map((row) => this.row(row, view, most)));
  }

  private row(row: ComparedRow, view: View, most: number): HTMLElement {
    const metric = row[view.metric];
    return choosable(row.key, view.row === row.key, () => this.choose({ row: row.key }), name(row.key), row.halts && h("small", {}, "halt, no overhead"),
      number(grouped(row.before_count)), number(grouped(row.after_count)), number(value(metric, "before"), runs(metric, "before")), number(value(metric, "after"), runs(metric, "after")),
      number(change(metric)), number(interval(metric)), cell(intervalPicture(metric, most)),
      h("td", { class: metric.proven ? "real" : "dim" }, this.data.method === "none" ? "" : verdict(metric)));
  }
}

// Shows the vCPUs' time of both sides. `counted` is the number of runs of each side.
function bothShares(models: Model[], counted: number[], kernel: string): { element: HTMLElement; draw: () => void } {
  const strips = models.map((model) => new Strips(model));
  const part = models.map((model) => percent(sums(model.data.vcpus, null).guest / model.vcpuTime));
  const element = section("shares", [`The guest ran ${part[0]} of the vCPUs' time before, ${part[1]} after${counted.some((n) => n > 1) ? ", in the first run of each side" : ""}`],
    ...models.flatMap(({ data }, i) => [h("h3", {}, `${kSides[i]}: `, name(data.sources[0]?.path ?? ""), `, ${duration(data.duration_ns)}${counted[i]! > 1 ? `, the first of ${grouped(counted[i]!)} runs` : ""}`), strips[i]!.element]),
    h("p", { class: "dim" }, `Order of the states, from the top: ${[...kStates].reverse().map((state) => (state === "kernel" ? kernel : kSigns[state])).join(", ")}. Each recording has the whole width.`));
  return { element, draw: () => { for (const one of strips) one.render(null); } };
}

class BothLatencies {
  private readonly title = h("h2");
  private readonly chart = new Chart({ class: "bars", height: kHeight, series: kSides.map((side, i) => ({ ...(side === "before" ? { fill: "dim", alpha: 0.75 } : { fill: "heat" }), paths: blocks(i, kSides.length) })),
    pointed: (ns) => this.read(binOf(ns)) });
  private readonly caption = h("figcaption");
  private readonly picture = h("figure", {}, this.caption, this.chart.element);
  private readonly reading = h("p", { class: "reading" });
  private readonly empty = h("p", { class: "empty" }, "The pages' data has no distribution by these values: compare by reason, device, function or vcpu.");
  readonly element = section("latency", this.title, this.picture, this.reading, this.empty);
  private sides: Map<number, number>[] = []; // shares by latency bin

  constructor(
    private readonly models: Model[],
    private readonly data: Comparison,
  ) {}

  // Latency bins of one side's row; nothing where its page holds no such row.
  private bins(model: Model, key: string): [number, number][] {
    if ((this.data.rows_of ?? "exits") !== "exits") return []; // the cells are of exits
    const flat = model.groups({ by: this.data.by, sort: "total", up: false, query: "", rows: [], time: null, latency: null, worst: null, all: true, busy: null })
      .find((group) => group.key === key)?.histogram ?? [];
    const pairs: [number, number][] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([flat[i]!, flat[i + 1]!]);
    return pairs;
  }

  render(view: View): void {
    const row = this.data.rows.find((one) => one.key === view.row);
    const sides = this.models.map((model) => this.bins(model, view.row));
    const none = !row || sides.every((bins) => bins.length === 0);
    this.picture.hidden = this.reading.hidden = none;
    this.empty.hidden = !none;
    this.reading.textContent = "Point at a bar to read it.";
    if (none) {
      replace(this.title, row ? name(clip(row.key, 60)) : "No row", ": no distribution");
      return;
    }
    replace(this.title, name(clip(row.key, 60)), `: half took at most ${value(row.p50, "before")} before, ${value(row.p50, "after")} after; 99 % at most ${value(row.p99, "before")}, ${value(row.p99, "after")}`);
    this.draw(sides, row);
  }

  private draw(sides: [number, number][][], row: ComparedRow): void {
    this.sides = sides.map((side) => {
      const count = Math.max(1, side.reduce((n, [, more]) => n + more, 0));
      return new Map(side.map(([bin, n]) => [bin, n / count]));
    });
    const most = Math.max(...this.sides.flatMap((side) => [...side.values()]));
    drawDistribution(this.chart, "Latency distributions before and after", widthOf(this.picture), { to: most, label: "share of the exits", say: percent }, this.sides);
    const counted = { before: row.before_count, after: row.after_count };
    replace(this.caption, ...kSides.flatMap((side) => [h("span", { class: `swatch s-${side}`, "aria-hidden": "true" }), `${side}: ${grouped(counted[side])} exits   `]));
  }

  private read(bin: number): void {
    this.reading.textContent = `${latencyRange(bin)}: ${this.sides.map((side, i) => `${percent(side.get(bin) ?? 0)} of the exits ${kSides[i]}`).join(", ")}`;
  }
}

export function startComparison(packed: Report[], data: Comparison, main: HTMLElement, header: (title: (Node | string)[], command: () => string, redraw: () => void) => HTMLElement): void {
  const recordings = packed.map(unpack);
  useUnit(data.cycles ? "cycles" : "ns");
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
  const command = ["trapline", "diff", ...sides, "--by", data.by].map(quoted).join(" ");
  const names = kSides.map((side) => data[side][0]?.path.split("/").filter(Boolean).at(-1) ?? side);
  document.title = `${visible(names.join(" and "))}: what changed`;
  main.append(
    header(["What changed ", h("small", {}, "from ", name(names[0]!), " to ", name(names[1]!))], () => command, () => { changeLook(); drawing.change(); }),
    h("p", {}, h("code", { id: "command" }, visible(command))),
    changes.element, latencies.element, shares.element,
    ...recordings.flatMap((recording, i) => [head(recording, kSides[i]!), foot(recording, kSides[i]!)]));
  drawing.change();
  drawing.all();
}
