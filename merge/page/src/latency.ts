// What is chosen, closer: the distribution of its latency, and how that went over time.
import { logAxis } from "./axis";
import type { Choice } from "./choice";
import { clip, currentLook, h, name, replace, s, widthOf } from "./dom";
import { knowsDurations, kRecordDurations } from "./known";
import { filled, kLatencyBins, low, type Group, type Heat, type Model, type Selection } from "./model";
import type { Change } from "./shares";
import { counted, duration, exact, grouped, moment, spoken } from "./text";

const kHeight = 190;
const kHeatHeight = 230;
const kLeft = 64;
const kBottom = 34;

export class Latency {
  readonly element = h("section", { id: "latency", "aria-labelledby": "latency-title" });
  private readonly title = h("h2", { id: "latency-title" });
  private readonly histogram = h("figure", { class: "half" });
  private readonly heat = h("figure", { class: "half" });
  private readonly reading = h("p", { class: "reading" });
  private readonly outside = s("g"); // of the heatmap: what an interval leaves out
  private drawn: { heat: Heat; look: number } | null = null;
  private readonly from: HTMLSelectElement;
  private readonly to: HTMLSelectElement;

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const slid = (): void => {
      const [from, to] = [Number(this.from.value), Number(this.to.value)];
      this.change({ latency: to > from && (from > 0 || to < kLatencyBins) ? [from, to] : null });
    };
    this.from = h("select", { id: "latency-from", change: slid });
    this.to = h("select", { id: "latency-to", change: slid });
    if (!knowsDurations(model.data)) {
      this.element.append(this.title, h("p", { class: "empty" }, kRecordDurations));
      return;
    }
    this.element.append(this.title,
      h("div", { class: "beside" }, this.histogram, this.heat), this.reading,
      h("div", { class: "controls noprint" }, h("label", { for: "latency-from" }, "Only exits from"), this.from,
        h("label", { for: "latency-to" }, "up to"), this.to));
  }

  private chosenRow(choice: Choice): Group | undefined {
    if (choice.rows.length !== 1) return undefined;
    const row = choice.rows[0]!;
    return this.model.groups({ ...choice, by: row.by, latency: null }).find((one) => one.key === row.key);
  }

  render(choice: Choice, selection: Selection): void {
    if (!knowsDurations(this.model.data)) {
      replace(this.title, `How long ${counted(selection.count, "exit")} took was not recorded`);
      return;
    }
    const row = this.chosenRow(choice);
    if (row && !row.combos) {
      this.nothing(row, "Page faults are not kept by address: this row has its figures only. Choose page-fault among the details of an interval, or npf among the reasons, for all of them.");
      return;
    }
    const bins = filled(selection.histogram);
    const count = bins.reduce((n, [, more]) => n + more, 0);
    const what = choice.rows.length === 0 ? [this.model.hasHalts ? "All exits, with halts" : "All exits"]
      : choice.rows.flatMap((one, i) => [i ? " and " : "", name(clip(spoken(one.key), 50))]);
    replace(this.title, ...what, ...(count === 0 ? [": no exits in what is chosen"]
      : row && !row.approximate ? [`: half of ${counted(count, "exit")} took at most ${duration(row.p50_ns)}, the longest ${duration(row.max_ns)}`]
      : [`: the median of ${counted(count, "exit")} is ${range(median(bins, count))}, the longest ${this.longest(choice, bins)}`]));
    this.options(bins, choice);
    this.drawHistogram(bins, choice, row);
    this.drawHeat(choice, selection.heat);
  }

  // The table's rows know the longest of all exits; of a part of them its bin is known.
  private longest(choice: Choice, bins: [number, number][]): string {
    const set = this.model.data.sets.find((one) => one.by === "reason");
    const all = choice.rows.length === 0 && !choice.time && !choice.latency;
    if (all && set && set.rows_left_out === 0) return duration(Math.max(...set.rows.map((row) => row.max_ns)));
    return range(bins.at(-1)?.[0] ?? 0);
  }

  private nothing(row: Group, why: string): void {
    replace(this.title, name(clip(row.key, 60)), `: ${counted(row.count, "exit")}, the longest ${duration(row.max_ns)}`);
    replace(this.histogram);
    this.drawn = null;
    replace(this.heat, h("p", { class: "empty" }, why));
    this.reading.textContent = "";
  }

  private options(bins: [number, number][], choice: Choice): void {
    const [first, last] = [bins[0]?.[0] ?? 0, bins.at(-1)?.[0] ?? 0];
    const [a, b] = choice.latency ?? [0, kLatencyBins];
    const make = (at: number, open: number, chosen: number): HTMLOptionElement =>
      h("option", { value: at, selected: at === chosen }, at === open ? "any" : duration(low(at)));
    const list = (open: number, chosen: number): HTMLOptionElement[] => {
      const values = new Set([open, chosen]);
      for (let bin = first; bin <= last + 1; ++bin) values.add(bin);
      return [...values].sort((x, y) => x - y).map((at) => make(at, open, chosen));
    };
    replace(this.from, ...list(0, a));
    replace(this.to, ...list(kLatencyBins, b));
  }

  private drawHistogram(bins: [number, number][], choice: Choice, row?: Group): void {
    const width = Math.max(280, widthOf(this.histogram, 460));
    const first = (bins[0]?.[0] ?? 0) - 1;
    const last = (bins.at(-1)?.[0] ?? 3) + 2;
    const most = Math.max(1, ...bins.map(([, n]) => n));
    const x = (bin: number): number => kLeft + ((bin - first) / (last - first)) * (width - kLeft - 8);
    const inner = kHeight - kBottom - 24;
    const svg = s("svg", { width, height: kHeight, role: "img",
      "aria-label": `Latency distribution, logarithmic axis, from ${duration(low(Math.max(0, first)))} to ${duration(low(last))}` });
    const floor = kHeight - kBottom;
    svg.append(s("text", { class: "axis-name", x: kLeft, y: 12 }, "exits"), s("text", { x: kLeft - 6, y: floor - inner + 4, "text-anchor": "end" }, grouped(most)),
      s("text", { x: kLeft - 6, y: floor + 4, "text-anchor": "end" }, "0"), s("path", { class: "tick", d: `M${kLeft} ${floor}H${width - 8}` }));
    for (const [bin, n] of bins) {
      const size = Math.max(1.5, (n / most) * inner);
      const inside = !choice.latency || (bin >= choice.latency[0] && bin < choice.latency[1]);
      svg.append(s("rect", { class: inside ? "bar" : "bar out", x: x(bin), y: floor - size, width: Math.max(1, x(bin + 1) - x(bin) - 0.6), height: size,
        click: () => this.change({ latency: choice.latency?.[0] === bin && choice.latency[1] === bin + 1 ? null : [bin, bin + 1] }) },
        s("title", {}, `${duration(low(bin))} to ${duration(low(bin + 1))}: ${counted(n, "exit")}`)));
    }
    logAxis(svg, first, last, x, floor);
    if (row) {
      let line = 0;
      for (const [label, ns] of [["p50", row.p50_ns], ["p90", row.p90_ns], ["p99", row.p99_ns], ["max", row.max_ns]] as const) {
        if (ns === null) continue;
        const at = x(4 * Math.log2(Math.max(1, ns)));
        const end = at > width - 110;
        const y = 12 + 12 * (line++ % 3);
        svg.append(s("path", { class: "mark", d: `M${at.toFixed(1)} ${y - 6}V${floor}` }),
          s("text", { class: "mark-name", x: end ? at - 3 : at + 3, y, "text-anchor": end ? "end" : "start" }, `${label} ${row.approximate ? "≈ " : ""}${duration(ns)}`, row.approximate ? "" : s("title", {}, exact(ns))));
      }
    }
    replace(this.histogram, h("figcaption", {}, "Distribution; choose a bar to see only its exits"), svg);
  }

  // The picture stays until other rows are chosen; an interval is marked over it.
  private drawHeat(choice: Choice, heat: Heat): void {
    if (heat.last === 0) {
      this.drawn = null;
      replace(this.heat, h("p", { class: "empty" }, "No exits are in what is chosen: choose another row, or Clear."));
      return;
    }
    if (this.drawn?.heat !== heat || this.drawn.look !== currentLook()) this.paintHeat(heat);
    const { data } = this.model;
    const [width, height] = [this.heatWidth() - kLeft - 8, kHeatHeight - kBottom - 8];
    const x = (bin: number): number => kLeft + (bin / data.time.bins) * width;
    const outside = (from: number, to: number): SVGElement => s("rect", { class: "outside", x: x(from), width: Math.max(0, x(to) - x(from)), height });
    replace(this.outside, ...(choice.time ? [outside(0, choice.time[0]), outside(choice.time[1], data.time.bins)] : []));
  }

  private heatWidth(): number {
    return Math.max(280, widthOf(this.heat, 460));
  }

  private paintHeat(heat: Heat): void {
    const { data } = this.model;
    const { first, last, most } = heat;
    this.drawn = { heat, look: currentLook() };
    const width = this.heatWidth();
    const inner = [width - kLeft - 8, kHeatHeight - kBottom - 8] as const;
    const ratio = window.devicePixelRatio || 1;
    const canvas = h("canvas", { width: Math.round(inner[0] * ratio), height: Math.round(inner[1] * ratio), role: "img",
      "aria-label": `Exits by time and latency; the fullest of the cells has ${counted(most, "exit")}` });
    canvas.style.width = `${inner[0]}px`;
    canvas.style.height = `${inner[1]}px`;
    canvas.style.marginLeft = `${kLeft}px`;
    const context = canvas.getContext("2d");
    const cell = [canvas.width / data.time.bins, canvas.height / (last - first)] as const;
    if (context) {
      context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--heat").trim();
      heat.counts.forEach((n, at) => {
        if (n === 0) return;
        const [time, bin] = [Math.floor(at / kLatencyBins), at % kLatencyBins];
        context.globalAlpha = 0.22 + 0.78 * (Math.log1p(n) / Math.log1p(most));
        context.fillRect(time * cell[0], (last - bin - 1) * cell[1], Math.max(1.5, cell[0] - 0.4), Math.max(1.5, cell[1] - 0.4));
      });
    }
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const time = Math.floor(((event.clientX - box.left) / box.width) * data.time.bins);
      const bin = last - 1 - Math.floor(((event.clientY - box.top) / box.height) * (last - first));
      const n = heat.counts[time * kLatencyBins + bin] ?? 0;
      this.reading.textContent = `${moment(this.model.edge(time), 3)}, ${duration(low(bin))} to ${duration(low(bin + 1))}: ${counted(n, "exit")}`;
    });
    const scale = s("svg", { class: "scale", width, height: kHeatHeight, "aria-hidden": "true" }, this.outside);
    for (let size = 1; size < 1e19; size *= 10) {
      const bin = 4 * Math.log2(size);
      if (bin < first || bin > last) continue;
      const y = ((last - bin) / (last - first)) * inner[1];
      scale.append(s("path", { class: "tick", d: `M${kLeft - 4} ${y.toFixed(1)}h4` }), s("text", { x: kLeft - 7, y: Math.max(9, y + 4), "text-anchor": "end" }, duration(size)));
    }
    scale.append(s("text", { x: kLeft, y: inner[1] + 16 }, "0"),
      s("text", { x: kLeft + inner[0], y: inner[1] + 16, "text-anchor": "end" }, duration(data.duration_ns)),
      s("text", { class: "axis-name", x: kLeft, y: inner[1] + 31 }, `begin of the exit; stronger: more exits, at most ${grouped(most)} a cell`));
    replace(this.heat, h("figcaption", {}, "Latency (log scale) over time"), h("div", { class: "over" }, scale, canvas));
    if (!this.reading.textContent) this.reading.textContent = "Point at a cell to read it.";
  }
}

// The bin of the median.
function median(bins: [number, number][], count: number): number {
  let rank = Math.ceil(count / 2);
  for (const [bin, n] of bins) {
    rank -= n;
    if (rank <= 0) return bin;
  }
  return 0;
}

const range = (bin: number): string => `${duration(low(bin))} to ${duration(low(bin + 1))}`;
