// Two sides on one page: what changed, with its interval, over all of their runs; the vCPUs' time and the
// distributions of the first run of each.
import { blocks, Chart } from "./chart";
import { changeLook, clip, h, name, number, replace, s, scroll, widthOf } from "./dom";
import { Drawing } from "./drawing";
import { foot, head } from "./head";
import { kernelOf } from "./known";
import { binOf, edge, low, Model } from "./model";
import { kSigns, Strips, sums } from "./strip";
import { duration, exact, grouped, percent, quoted, sig3, useUnit, visible } from "./text";
import { kMetrics, kStates, type ComparedRow, type Comparison, type Metric, type MetricChange, type PackedRecording } from "./types";
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

const signed = (part: number): string => (part < 0 ? "−" : "+") + percent(Math.abs(part));

// "+12 %"; what is on one side only has no number.
function change({ before, after, change: part }: MetricChange): string {
  if (part === null) return before === 0 && after !== null && after > 0 ? "new" : "–";
  return part <= -1 ? "gone" : signed(part);
}

function interval({ low: from, high: to }: MetricChange): string {
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
  readonly element = h("section", { id: "changes", "aria-labelledby": "changes-title" });
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
    this.element.append(h("h2", { id: "changes-title" }, ...this.heading()),
      ...data.warnings.map((text) => h("p", { class: "alert", role: "note" }, text)),
      h("div", { class: "controls noprint" }, h("label", { for: "metric" }, "Figure"), this.metric),
      scroll("Changes, table",
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, data.by.replace(/,/g, " / ")),
          ...["Exits before", "after", "Before", "After", "Change", `${confidence} interval`].map((text) => h("th", { scope: "col", class: "number" }, text)),
          h("th", { scope: "col" }, "Interval", h("small", {}, "line: no change")), h("th", { scope: "col" }, this.data.method === "none" ? "" : "Is it proven"))),
        this.body),
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
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.["row"];
    const most = Math.max(0.05, ...this.data.rows.flatMap((row) => [row[view.metric].low, row[view.metric].high]).map((part) => Math.min(2, Math.abs(part ?? 0))));
    replace(this.body, ...this.data.rows.map((row) => this.row(row, view, most)));
    if (focused === undefined) return;
    for (const one of this.body.querySelectorAll<HTMLElement>("button[data-row]")) if (one.dataset["row"] === focused) one.focus();
  }

  private row(row: ComparedRow, view: View, most: number): HTMLElement {
    const metric = row[view.metric];
    const chosen = view.row === row.key;
    const choose = (): void => this.choose({ row: row.key });
    return h("tr", { class: chosen ? "chosen" : "", "data-key": row.key, click: (event) => { if (!(event.target as Element).closest("button")) choose(); } },
      h("th", { scope: "row" }, h("button", { type: "button", "data-row": row.key, "aria-pressed": String(chosen), click: choose },
        h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "● " : "○ "), name(row.key)), row.halts && h("small", {}, "halt, no overhead")),
      number(grouped(row.before_count)), number(grouped(row.after_count)), number(value(metric, "before"), runs(metric, "before")), number(value(metric, "after"), runs(metric, "after")),
      number(change(metric)), number(interval(metric)), h("td", {}, intervalPicture(metric, most)),
      h("td", { class: metric.proven ? "real" : "dim" }, this.data.method === "none" ? "" : verdict(metric)));
  }
}

class BothShares {
  readonly element = h("section", { id: "shares", "aria-labelledby": "shares-title" });
  private readonly strips: Strips[];

  constructor(
    models: Model[],
    private readonly counted: number[], // runs of each side
    kernel: string,
  ) {
    this.strips = models.map((model) => new Strips(model));
    const part = models.map((model) => percent(sums(model.data.vcpus, null).guest / model.vcpuTime));
    this.element.append(h("h2", { id: "shares-title" }, `The guest ran ${part[0]} of the vCPUs' time before, ${part[1]} after${counted.some((n) => n > 1) ? ", in the first run of each side" : ""}`),
      ...models.flatMap((model, i) => [h("h3", {}, `${kSides[i]}: `, name(model.data.sources[0]?.path ?? ""), `, ${duration(model.data.duration_ns)}${this.counted[i]! > 1 ? `, the first of ${grouped(this.counted[i]!)} runs` : ""}`), this.strips[i]!.element]),
      h("p", { class: "dim" }, `Order of the states, from the top: ${[...kStates].reverse().map((state) => (state === "kernel" ? kernel : kSigns[state])).join(", ")}. Each recording has the whole width.`));
  }

  render(): void {
    for (const strips of this.strips) strips.render(null);
  }
}

class BothLatencies {
  readonly element = h("section", { id: "latency", "aria-labelledby": "latency-title" });
  private readonly title = h("h2", { id: "latency-title" });
  private readonly chart = new Chart({ class: "bars", height: kHeight, series: kSides.map((side, i) => ({ ...(side === "before" ? { fill: "dim", alpha: 0.75 } : { fill: "heat" }), paths: blocks(i, kSides.length) })),
    pointed: (ns) => this.read(binOf(ns)) });
  private readonly caption = h("figcaption");
  private readonly picture = h("figure", {}, this.caption, this.chart.element);
  private readonly reading = h("p", { class: "reading" });
  private readonly empty = h("p", { class: "empty" }, "The pages' data has no distribution by these values: compare by reason, device, function or vcpu.");
  private sides: Map<number, number>[] = []; // shares by latency bin

  constructor(
    private readonly models: Model[],
    private readonly data: Comparison,
  ) {
    this.element.append(this.title, this.picture, this.reading, this.empty);
  }

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
    const bins = sides.flat().map(([bin]) => bin);
    const [first, last] = [Math.min(...bins) - 1, Math.max(...bins) + 2];
    this.sides = sides.map((side) => {
      const count = Math.max(1, side.reduce((n, [, more]) => n + more, 0));
      return new Map(side.map(([bin, n]) => [bin, n / count]));
    });
    const all = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    this.chart.element.setAttribute("aria-label", `Latency distributions before and after, logarithmic axis, from ${duration(low(Math.max(0, first)))} to ${duration(low(last))}`);
    this.chart.draw(Math.max(280, widthOf(this.picture)), { from: edge(first), to: edge(last), log: true, label: "latency, log scale", say: duration },
      { from: 0, to: Math.max(...this.sides.flatMap((side) => [...side.values()])), label: "share of the exits", say: percent },
      [all.map(edge), ...this.sides.map((side) => all.map((bin) => side.get(bin) ?? null))]);
    const counted = { before: row.before_count, after: row.after_count };
    replace(this.caption, ...kSides.flatMap((side) => [h("span", { class: `swatch s-${side}`, "aria-hidden": "true" }), `${side}: ${grouped(counted[side])} exits   `]));
  }

  private read(bin: number): void {
    this.reading.textContent = `${duration(low(bin))} to ${duration(low(bin + 1))}: ${this.sides.map((side, i) => `${percent(side.get(bin) ?? 0)} of the exits ${kSides[i]}`).join(", ")}`;
  }
}

export function startComparison(packed: PackedRecording[], data: Comparison, main: HTMLElement, tools: (redraw: () => void, command: () => string) => HTMLElement): void {
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
  const [shares, latencies] = [new BothShares(models, kSides.map((side) => data[side].length), kernel), new BothLatencies(models, data)];
  const drawing = new Drawing([
    { element: changes.element, draw: () => changes.render(view) },
    { element: shares.element, draw: () => shares.render() },
    { element: latencies.element, draw: () => latencies.render(view) },
  ], () => {});
  const paths = (side: "before" | "after"): string[] => data[side].map((one) => one.path);
  const single = data.before.length === 1 && data.after.length === 1;
  const sides = single ? [...paths("before"), ...paths("after")] : ["--before", ...paths("before"), "--after", ...paths("after")];
  const command = ["trapline", "diff", ...sides, "--by", data.by].map(quoted).join(" ");
  const names = kSides.map((side) => data[side][0]?.path.split("/").filter(Boolean).at(-1) ?? side);
  document.title = `${visible(names.join(" and "))}: what changed`;
  main.append(
    h("header", {}, h("h1", {}, "What changed ", h("small", {}, "from ", name(names[0]!), " to ", name(names[1]!))), tools(() => { changeLook(); drawing.change(); }, () => command)),
    h("p", {}, h("code", { id: "command" }, visible(command))),
    changes.element, latencies.element, shares.element,
    ...recordings.flatMap((recording, i) => [head(recording, kSides[i]!), foot(recording, kSides[i]!)]));
  drawing.change();
  drawing.all();
}
