// What is chosen, closer: the distribution of its latency, and how that went over time.
import { blocks, cells, Chart, sinceStart, type Cell } from "./chart";
import type { Choice } from "./choice";
import { drawDistribution, latencyRange } from "./distribution";
import { clip, currentLook, h, name, replace, section, widthOf } from "./dom";
import { knowsDurations, kRecordDurations } from "./known";
import { binOf, edge, filled, kLatencyBins, low, type Group, type Heat, type Model, type Selection } from "./model";
import type { Change } from "./shares";
import { counted, duration, exact, grouped, moment, spoken } from "./text";

const kHeight = 190;
const kUnderNames = 1.25; // height of the chart relative to its highest block, if marks have names above the blocks

export class Latency {
  private readonly title = h("h2");
  readonly element = section("latency", this.title);
  private readonly bars = new Chart({ class: "bars", height: kHeight, series: [{ fill: "heat", paths: blocks() }, { fill: "heat", alpha: 0.3, paths: blocks() }],
    pointed: (ns) => this.read(binOf(ns)), clicked: (ns) => this.choose(binOf(ns)) });
  private readonly cells = new Chart({ height: kHeight, series: [{ fill: "heat", paths: cells("heat", () => this.cellsOf(this.drawn!.heat)) }],
    pointed: (time, ns) => this.read(binOf(ns), this.model.binAt(time)) });
  private readonly histogram = h("figure", { class: "half" }, h("figcaption", {}, "Distribution; choose a bar to see only its exits"), this.bars.element);
  private readonly overTime = h("figure", { class: "half" }, h("figcaption", {}, "Latency (log scale) over time"), this.cells.element);
  private readonly empty = h("p", { class: "empty" });
  private readonly reading = h("p", { class: "reading" }, "Point at a bar or a cell to read it.");
  private shown: { choice: Choice; counts: Map<number, number> } | null = null;
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
      this.element.append(h("p", { class: "empty" }, kRecordDurations));
      return;
    }
    this.element.append(h("div", { class: "beside" }, this.histogram, this.overTime, this.empty), this.reading,
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
      this.nothing(row, "The exits of this row are not kept by their values: it has its figures only.");
      return;
    }
    const bins = filled(selection.histogram);
    const count = bins.reduce((n, [, more]) => n + more, 0);
    const what = choice.rows.length === 0 ? [this.model.hasHalts ? "All exits, with halts" : "All exits"]
      : choice.rows.flatMap((one, i) => [i ? " and " : "", name(clip(spoken(one.key), 50))]);
    replace(this.title, ...what, ...(count === 0 ? [": no exits in what is chosen"]
      : row && !row.approximate ? [`: half of ${counted(count, "exit")} took at most ${duration(row.p50_ns)}, the longest ${duration(row.max_ns)}`]
      : [`: the median of ${counted(count, "exit")} is ${latencyRange(median(bins, count))}, the longest ${this.longest(choice, bins)}`]));
    this.show(selection.heat.last === 0 ? "No exits are in what is chosen: choose another row, or Clear." : null);
    this.options(bins, choice);
    this.shown = { choice, counts: new Map(bins) };
    this.drawBars(bins, choice, row);
    if (selection.heat.last > 0) this.drawCells(choice, selection.heat);
  }

  // The table's rows know the longest of all exits; of a part of them its bin is known.
  private longest(choice: Choice, bins: [number, number][]): string {
    const set = this.model.data.sets.find((one) => one.by === "reason");
    const all = choice.rows.length === 0 && !choice.time && !choice.latency;
    if (all && set && set.rows_left_out === 0) return duration(Math.max(...set.rows.map((row) => row.max_ns)));
    return latencyRange(bins.at(-1)?.[0] ?? 0);
  }

  private nothing(row: Group, why: string): void {
    replace(this.title, name(clip(row.key, 60)), `: ${counted(row.count, "exit")}, the longest ${duration(row.max_ns)}`);
    this.show(why, false);
  }

  // Shows the chart over time, or the reason why there is none.
  private show(why: string | null, histogram = true): void {
    this.histogram.hidden = !histogram;
    this.overTime.hidden = why !== null;
    this.empty.hidden = why === null;
    this.empty.textContent = why;
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

  private drawBars(bins: [number, number][], choice: Choice, row?: Group): void {
    const [from, to] = choice.latency ?? [0, kLatencyBins];
    const side = (inside: boolean): Map<number, number> => new Map(bins.filter(([bin]) => (bin >= from && bin < to) === inside));
    const most = Math.max(1, ...bins.map(([, n]) => n));
    drawDistribution(this.bars, "Latency distribution", widthOf(this.histogram, 460), { to: most * (row ? kUnderNames : 1), label: "exits", say: grouped }, [side(true), side(false)]);
    const marks = row ? ([["p50", row.p50_ns], ["p90", row.p90_ns], ["p99", row.p99_ns], ["max", row.max_ns]] as const) : [];
    this.bars.mark(...marks.flatMap(([label, ns]) => (ns === null ? [] : [{ x: ns,
      element: h("div", { class: "mark", title: row!.approximate ? "" : exact(ns) }, h("span", {}, `${label} ${row!.approximate ? "≈ " : ""}${duration(ns)}`)) }])));
  }

  private choose(bin: number): void {
    const { choice, counts } = this.shown!;
    if (!counts.has(bin)) return;
    this.change({ latency: choice.latency?.[0] === bin && choice.latency[1] === bin + 1 ? null : [bin, bin + 1] });
  }

  // Draws the chart only when other rows are chosen. An interval is marked over the chart.
  private drawCells(choice: Choice, heat: Heat): void {
    const { data } = this.model;
    if (this.drawn?.heat !== heat || this.drawn.look !== currentLook()) {
      this.drawn = { heat, look: currentLook() };
      this.cells.element.setAttribute("aria-label", `Exits by time and latency; the fullest of the cells has ${counted(heat.most, "exit")}`);
      this.cells.draw(Math.max(280, widthOf(this.overTime, 460)), { from: 0, to: Math.max(1, data.duration_ns), label: `begin of the exit; stronger: more exits, at most ${grouped(heat.most)} a cell`, say: sinceStart },
        { from: edge(heat.first), to: edge(heat.last), log: true, say: duration }, [this.model.edges(), this.model.edges().fill(1)]);
    }
    this.cells.select(choice.time && [this.model.edge(choice.time[0]), this.model.edge(choice.time[1])]);
  }

  private cellsOf(heat: Heat): Cell[] {
    const list: Cell[] = [];
    heat.counts.forEach((n, at) => {
      if (n === 0) return;
      const [time, bin] = [Math.floor(at / kLatencyBins), at % kLatencyBins];
      list.push([this.model.edge(time), edge(bin), this.model.edge(time + 1), edge(bin + 1), Math.log1p(n) / Math.log1p(heat.most)]);
    });
    return list;
  }

  private read(bin: number, time?: number): void {
    const n = (time === undefined ? this.shown?.counts.get(bin) : this.drawn?.heat.counts[time * kLatencyBins + bin]) ?? 0;
    this.reading.textContent = `${time === undefined ? "" : `${moment(this.model.edge(time), 3)}, `}${latencyRange(bin)}: ${counted(n, "exit")}`;
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
