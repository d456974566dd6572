// The chosen exits, closer: the distribution of their latency, and how that went over time.
import { blocks, cells, Chart, drawDistribution, atMost, latencyRange, sinceStart, type Cell } from "./chart";
import type { Choice } from "./choice";
import { clip, currentLook, entitle, h, name, nothing, section, widthOf } from "./dom";
import { knowsDurations, kRecord } from "./known";
import { binOf, edge, filled, kLatencyBins, low, ranked, type Group, type Heat, type Model, type Selection } from "./model";
import type { Change } from "./shares";
import { Sliders } from "./sliders";
import { counted, duration, exact, grouped, moment } from "./text";

const kHeight = 190;
const kUnderNames = 1.25; // height of the chart relative to its highest block, if marks have names above the blocks

export class Latency {
  readonly element = section("latency", []);
  private readonly bars = new Chart({ class: "bars", height: kHeight, series: [{ fill: "heat", paths: blocks() }, { fill: "heat", alpha: 0.3, paths: blocks() }],
    pointed: (ns) => this.read(binOf(ns)), clicked: (ns) => this.choose(binOf(ns)) });
  private readonly cells = new Chart({ height: kHeight, series: [{ fill: "heat", paths: cells("heat", () => this.cellsOf(this.drawn!.heat)) }],
    pointed: (time, ns) => this.read(binOf(ns), this.model.binAt(time)) });
  private readonly histogram = h("figure", { class: "half" }, h("figcaption", {}, "Distribution; choose a bar to see only its exits"), this.bars.element);
  private readonly overTime = h("figure", { class: "half" }, h("figcaption", {}, "Latency (log scale) over time"), this.cells.element);
  private readonly reading = h("p", { class: "reading" }, "Point at a bar or a cell to read it.");
  private shown: { choice: Choice; counts: Map<number, number> } | null = null;
  private drawn: { heat: Heat; look: string } | null = null;
  private readonly sliders = new Sliders("latency", "Only exits from", (bin) => (bin >= kLatencyBins ? "any" : duration(low(bin))), (latency) => this.change({ latency }));

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    this.element.append(h("div", { class: "beside" }, this.histogram, this.overTime), this.reading, this.sliders.element);
  }

  private chosenRow(choice: Choice): Group | undefined {
    if (choice.rows.length !== 1) return undefined;
    const row = choice.rows[0]!;
    return this.model.groups({ ...choice, by: row.by, latency: null }).find((one) => one.key === row.key);
  }

  render(choice: Choice, selection: Selection): void {
    if (!knowsDurations(this.model.data)) {
      nothing(this.element, `How long ${counted(selection.count, "exit")} took was not recorded`, kRecord);
      return;
    }
    const row = this.chosenRow(choice);
    const bins = filled(selection.histogram);
    const count = bins.reduce((n, [, more]) => n + more, 0);
    if (row && !row.combos) nothing(this.element, `${clip(row.key, 60)}: ${counted(row.count, "exit")}, the longest ${duration(row.max_ns)}; they are not kept by their values`);
    else if (count === 0) nothing(this.element, "No exits are in what is chosen: choose another row, or Clear");
    if ((row && !row.combos) || count === 0) return;
    const what = choice.rows.length === 0 ? [this.model.hasHalts ? "All exits, with halts" : "All exits"]
      : choice.rows.flatMap((one, i) => [i ? " and " : "", name(clip(one.key, 50), one.by)]);
    entitle(this.element, ...what, row && !row.approximate ? `: half of ${counted(count, "exit")} took at most ${duration(row.p50_ns)}, the longest ${duration(row.max_ns)}`
      : `: half of ${counted(count, "exit")} took about ${atMost(ranked(bins, count, 500))} or less, the longest ${this.longest(choice, bins)}${selection.count > count ? `; ${grouped(selection.count - count)} more have no recorded end` : ""}`);
    this.sliders.show([bins[0]![0], bins.at(-1)![0] + 1], choice.latency);
    this.shown = { choice, counts: new Map(bins) };
    this.drawBars(bins, choice, row);
    this.drawCells(choice, selection.heat);
  }

  // Says how long the longest exit took. Of a choice only its bin is known.
  private longest(choice: Choice, bins: [number, number][]): string {
    const set = this.model.data.sets.find((one) => one.by === "reason");
    const all = choice.rows.length === 0 && !choice.time && !choice.latency;
    if (all && set && set.left_out === 0) return duration(Math.max(...set.rows.map((row) => row.max_ns)));
    return latencyRange(bins.at(-1)?.[0] ?? 0);
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
    const look = [currentLook(), ...this.model.inSight(choice)].join();
    if (this.drawn?.heat !== heat || this.drawn.look !== look) {
      this.drawn = { heat, look };
      this.cells.element.setAttribute("aria-label", `Exits by time and latency; the fullest of the cells has ${counted(heat.most, "exit")}`);
      this.cells.draw(Math.max(280, widthOf(this.overTime, 460)), { ...this.model.scaleOf(choice), label: `begin of the exit; stronger: more exits, up to ${grouped(heat.most)} in a cell`, say: sinceStart },
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
