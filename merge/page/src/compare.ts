// Two sides on one page: what changed, with its interval, over all of their runs; the vCPUs' time and the
// distributions of the first run of each.
import { blocks, Chart, drawDistribution, latencyRange } from "./chart";
import { kStart } from "./choice";
import { clip, dim, entitle, h, name, nothing, replace, s, section, swatch, widthOf } from "./dom";
import { Drawing, type View } from "./drawing";
import { header, losses, onWidth, recorded } from "./head";
import { kernelOf, signOf } from "./known";
import { binOf, Model } from "./model";
import { drawRows, emptyTable, number, type Column } from "./rows";
import { stripsOf, sums } from "./strip";
import { duration, exact, grouped, percent, quoted, sig3, useUnit, visible } from "./text";
import { kStates, type Comparison, type Fields, type Report } from "./types";
import { unpack } from "./unpack";

const kInterval = 150; // px of an interval's picture
const kHeight = 190;
const kSides = ["before", "after"] as const;
const kNames = {
  rate: "exits a second", mean: "mean", p50: "p50", p99: "p99", share: "share of the vCPUs' time", cost: "time per guest time",
  kernel: "kernel, mean", user: "user (QEMU), mean", preempted: "preempted, mean", blocked: "blocked, mean", halted: "halted, mean",
};
type Metric = keyof typeof kNames;
const kMetrics = Object.keys(kNames) as Metric[];

function value(metric: Fields, side: "before" | "after"): string {
  const n = metric[side];
  if (n === null) return "–";
  if (metric.unit === "per_second") return `${sig3(n)}/s`;
  return metric.unit === "share" ? percent(n) : duration(n);
}

const signed = (part: number): string => `${part < 0 ? "−" : "+"}${sig3(Math.abs(part) * 100)}%`;

// Returns the ends of the interval, if it is known.
const ends = ({ low, high }: Fields): [number, number] | null =>
  (typeof low === "number" && typeof high === "number" ? [low, high] : null);

// Returns whether the interval spans more than a factor of ten, which no percentage can say.
function isVague(metric: Fields): boolean {
  const [from, to] = ends(metric) ?? [-1, 0];
  return from > -1 && 1 + to > 10 * (1 + from);
}

// Returns "+12%"; "new" or "gone" for a row that is on one side only.
function change(metric: Fields): string {
  const { before, after, change: part } = metric;
  if (isVague(metric) && !metric.proven) return "–";
  if (part === null) return before === 0 && after !== null && after > 0 ? "new" : "–";
  return part <= -1 ? "gone" : signed(part);
}

const interval = (metric: Fields): string =>
  (isVague(metric) ? "too few runs to say" : (ends(metric) ?? []).map(signed).join(" to "));

const verdict = ({ tested, proven }: Fields): string => (!tested ? "too little to tell" : proven ? "proven" : "not proven");

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
  const [from, to] = ends(metric) ?? [];
  const at = metric.change;
  if (!metric.tested || from === undefined || to === undefined) return svg;
  svg.append(s("rect", { class: metric.proven ? "mid" : "wide", x: x(from), y: 4, width: Math.max(1.5, x(to) - x(from)), height: 8 }));
  if (typeof at === "number") svg.append(s("rect", { class: "median", x: x(at) - 1, y: 2, width: 2.5, height: 12 }));
  return svg;
}

// A figure and a row, which are chosen.
interface Shown {
  metric: Metric;
  row: string;
}
type Both = View<[Shown]>;

function changes(data: Comparison, kernel: string, choose: (shown: Partial<Shown>) => void): Both {
  const table = emptyTable("Changes");
  const metrics = h("select", { id: "metric", change: () => choose({ metric: metrics.value as Metric }) },
    ...kMetrics.map((metric) => h("option", { value: metric }, metric === "kernel" ? `${kernel}, mean` : kNames[metric])));
  const element = section("changes", heading(),
    ...data.warnings.map((text: string) => h("p", { class: "alert", role: "note" }, text)),
    h("div", { class: "controls noprint" }, h("label", { for: "metric" }, "Figure"), metrics),
    table,
    dim(`${method()} ` +
      (data.left_out ? `${grouped(data.left_out)} rows with less time are left out: trapline diff --top 0 prints them. ` : "") + "Choose a row to see its distributions."));

  // Says what the figures can prove, and by which test.
  function method(): string {
    const { method, before, after, tests, splits } = data;
    const sides = `${grouped(before.length)} run${before.length === 1 ? "" : "s"} before and ${grouped(after.length)} after`;
    if (method === "none") return `These are the differences between these recordings. ${sides} cannot tell whether other runs differ too: record at least three of each side, better five.`;
    const how = `Student's t of the runs' logarithms${method === "student" ? "" : `, and the largest t of ${grouped(splits)} splits of the runs`}`;
    return `${sides}: a change is proven where its interval, which holds together with those of all ${grouped(tests)} tests, leaves out "no change" (${how}).`;
  }

  function heading(): (Node | string)[] {
    const { rows, proven_changes, method } = data;
    const cost = (row: Fields): number => Math.abs((row.cost.after ?? 0) - (row.cost.before ?? 0));
    const none = method === "none";
    const real = rows.filter((row) => !row.halts && (none ? row.cost.change !== null : row.cost.proven)).sort((a, b) => cost(b) - cost(a))[0];
    const count = none ? "Differences between these recordings, nothing proven" : proven_changes === 0 ? "No change is proven" : `${grouped(proven_changes)} change${proven_changes === 1 ? " is" : "s are"} proven`;
    return real ? [`${count}; for each second that the guest ran, `, name(clip(real.key, 50), data.by), ` took ${duration((real.cost.before ?? 0) * 1e9)} before, ${duration((real.cost.after ?? 0) * 1e9)} after`] : [count];
  }

  function draw(shown: Shown): void {
    metrics.value = shown.metric;
    const metric = (row: Fields): Fields => row[shown.metric];
    const most = Math.max(0.05, ...data.rows.map(metric).flatMap(ends).map((part) => Math.min(2, Math.abs(part ?? 0))));
    const figure = (title: string, text: (row: Fields) => string, more: (row: Fields) => string = () => ""): Column => [h("th", { scope: "col", class: "number" }, title), "node", (row) => number(text(row), more(row))];
    drawRows(table, [[data.by.replace(/,/g, " / "), "node", (row) => [name(row.key, data.by), row.halts && h("small", {}, "halt, no overhead")]],
      ["Exits before", "count", "before_count"], ["after", "count", "after_count"],
      figure("Before", (row) => value(metric(row), "before"), (row) => runs(metric(row), "before")), figure("After", (row) => value(metric(row), "after"), (row) => runs(metric(row), "after")),
      figure("Change", (row) => change(metric(row))), figure(`${Math.round(data.confidence * 1000) / 10} % interval`, (row) => interval(metric(row))), ["Interval", "node", (row) => intervalPicture(metric(row), most), "line: no change"],
      [data.method === "none" ? "" : "Is it proven", "node", (row) => h("td", { class: metric(row).proven ? "real" : "dim" }, data.method === "none" ? "" : verdict(metric(row)))]],
    data.rows, (row) => ({ key: row.key, chosen: shown.row === row.key, choose: () => choose({ row: row.key }) }));
  }

  return { element, draw };
}

// Shows the vCPUs' time of both sides. `counted` is the number of runs of each side.
function bothShares(models: Model[], counted: number[], kernel: string): Both {
  const strips = models.map((model) => stripsOf(model));
  const part = models.map(({ data }) => sums(data.vcpus, null)).map((all) => percent(all.guest / Math.max(1, all.time)));
  const element = section("shares", [`The guest ran ${part[0]} of the vCPUs' time before, ${part[1]} after${counted.some((n) => n > 1) ? ", in the first run of each side" : ""}`],
    ...models.flatMap((model, i) => [h("h3", {}, `${kSides[i]}: `,
      name(model.data.tables.sources?.rows[0]?.path ?? ""), `, ${duration(model.data.duration_ns)}${counted[i]! > 1 ? `, the first of ${grouped(counted[i]!)} runs` : ""}`), strips[i]!.element,
      model.begin > 0 && dim(model.before("folded away"))]),
    dim(`Order of the states, from the top: ${[...kStates].reverse().map((state) => (state === "kernel" ? kernel : signOf(state))).join(", ")}. Each recording has the whole width.`));
  return { element, draw: () => { for (const one of strips) one.render(kStart, false); } };
}

function bothLatencies(models: Model[], data: Comparison): Both {
  const chart = new Chart({ class: "bars", height: kHeight, series: kSides.map((side, i) => ({ ...(side === "before" ? { fill: "dim", alpha: 0.75 } : { fill: "heat" }), paths: blocks(i, kSides.length) })),
    pointed: (ns) => read(binOf(ns)) });
  const caption = h("figcaption");
  const picture = h("figure", {}, caption, chart.element);
  const reading = h("p", { class: "reading" });
  const element = section("latency", [], picture, reading);
  let shares: Map<number, number>[] = []; // of each side's exits, by latency bin

  // Returns the latency bins of one side's row; empty if its page holds no such row.
  function bins(model: Model, key: string): [number, number][] {
    if ((data.rows_of ?? "exits") !== "exits") return []; // the cells are of exits
    return model.groups({ ...kStart, by: data.by }).find((group) => group.key === key)?.histogram ?? [];
  }

  function draw(shown: Shown): void {
    const row = data.rows.find((one) => one.key === shown.row);
    const sides = models.map((model) => bins(model, shown.row));
    if (!row || sides.every((bins) => bins.length === 0)) {
      nothing(element, `${row ? clip(row.key, 60) : "No row"}: the page has no distribution by these values`, "trapline diff --by reason, device, function or vcpu");
      return;
    }
    reading.textContent = "Point at a bar to read it.";
    entitle(element, name(clip(row.key, 60), data.by), `: half took at most ${value(row.p50, "before")} before, ${value(row.p50, "after")} after; 99 % at most ${value(row.p99, "before")}, ${value(row.p99, "after")}`);
    shares = sides.map((side) => {
      const count = Math.max(1, side.reduce((n, [, more]) => n + more, 0));
      return new Map(side.map(([bin, n]) => [bin, n / count]));
    });
    const most = Math.max(...shares.flatMap((side) => [...side.values()]));
    drawDistribution(chart, "Latency distributions before and after", widthOf(picture), { to: most, label: "share of the exits", say: percent }, shares);
    replace(caption, ...kSides.flatMap((side) => [swatch(side), `${side}: ${grouped(row[`${side}_count`])} exits   `]));
  }

  function read(bin: number): void {
    reading.textContent = `${latencyRange(bin)}: ${shares.map((side, i) => `${percent(side.get(bin) ?? 0)} of the exits ${kSides[i]}`).join(", ")}`;
  }

  return { element, draw };
}

// The options that choose other rows than exits.
const kOptions: Record<string, string> = { calls: "--guest", interrupts: "--irq", waits: "--waits", threads: "--host-cpu", faults: "--faults" };

export function startComparison(packed: Report[], data: Comparison, main: HTMLElement): void {
  const recordings = packed.map(unpack);
  useUnit(data.time_unit);
  const models = recordings.map((recording) => new Model(recording));
  const words = new URLSearchParams(location.hash.replace(/^#/, ""));
  const asked = words.get("metric") as Metric | null;
  const known = (key: string | null): key is string => data.rows.some((row) => row.key === key);
  const first = data.rows.find((row) => !row.halts) ?? data.rows[0];
  let shown: Shown = { metric: asked && kMetrics.includes(asked) ? asked : "mean",
    row: known(words.get("row")) ? words.get("row")! : (first?.key ?? "") };
  const kernel = kernelOf(models.flatMap((model) => model.data.vcpus)[0]);
  const views: Both[] = [changes(data, kernel, (next) => {
    shown = { ...shown, ...next };
    history.replaceState(null, "", `#${new URLSearchParams({ ...shown })}`);
    drawing.change();
  }), bothLatencies(models, data), bothShares(models, kSides.map((side) => data[side].length), kernel)];
  const drawing = new Drawing<[Shown]>(views, () => [shown]);
  const paths = (side: "before" | "after"): string[] => data[side].map((one) => one.path);
  const single = data.before.length === 1 && data.after.length === 1;
  const sides = single ? [...paths("before"), ...paths("after")] : ["--before", ...paths("before"), "--after", ...paths("after")];
  const option = kOptions[data.rows_of];
  const command = ["trapline", "diff", ...sides, ...(option ? [option] : ["--by", data.by])].map(quoted).join(" ");
  const names = kSides.map((side) => data[side][0]?.path.split("/").filter(Boolean).at(-1) ?? side);
  document.title = `${visible(names.join(" and "))}: what changed`;
  main.append(
    header(["What changed ", h("small", {}, "from ", name(names[0]!), " to ", name(names[1]!))], () => command, drawing.again),
    h("p", {}, h("code", { id: "command" }, visible(command))),
    ...recordings.flatMap((recording, i) => losses(recording, kSides[i]!)), ...views.map(({ element }) => element),
    ...recordings.map((recording, i) => recorded(recording, kSides[i]!)));
  onWidth(main, drawing.again);
  drawing.change();
  drawing.all();
}
