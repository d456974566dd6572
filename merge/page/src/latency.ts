// The chosen exits, closer: the distribution of their latency, and how that went over time.
import { blocks, cells, Chart, drawDistribution, atMost, latencyRange, sinceStart, type Cell } from "./chart";
import type { Change, Choice } from "./choice";
import { clip, entitle, h, name, nothing, section, watch, widthOf } from "./dom";
import type { View } from "./drawing";
import { knowsDurations, kRecord } from "./known";
import { binOf, edge, filled, kLatencyBins, low, ranked, type Group, type Heat, type Model, type Selection } from "./model";
import { sliders } from "./sliders";
import { counted, duration, exact, grouped, moment } from "./text";

const kHeight = 190;
const kUnderNames = 1.25; // height of the chart relative to its highest block, if marks have names above the blocks

export function latency(model: Model, change: Change): View {
  const bars = new Chart({ class: "bars", height: kHeight, series: [{ fill: "heat", paths: blocks() }, { fill: "heat", alpha: 0.3, paths: blocks() }],
    pointed: (ns) => read(binOf(ns)), clicked: (ns) => choose(binOf(ns)) });
  const overTime = new Chart({ height: kHeight, series: [{ fill: "heat", paths: cells("heat", () => cellsOf(heat!)) }],
    pointed: (time, ns) => read(binOf(ns), model.binAt(time)) });
  const half = (caption: string, { element }: Chart): HTMLElement => h("figure", { class: "half" }, h("figcaption", {}, caption), element);
  const left = half("Distribution; choose a bar to see only its exits", bars);
  const right = half("Latency (log scale) over time", overTime);
  const reading = h("p", { class: "reading" }, "Point at a bar or a cell to read it.");
  const ends = sliders("latency", "Only exits from", (bin) => (bin >= kLatencyBins ? "any" : duration(low(bin))), (latency) => change({ latency }));
  const element = section("latency", [], h("div", { class: "beside" }, left, right), reading, ends.element);
  let shown: { choice: Choice; counts: Map<number, number> } | null = null;
  let heat: Heat | null = null;
  const isNew = watch();

  function chosenRow(choice: Choice): Group | undefined {
    if (choice.rows.length !== 1) return undefined;
    const row = choice.rows[0]!;
    return model.groups({ ...choice, by: row.by, latency: null }).find((one) => one.key === row.key);
  }

  function draw(choice: Choice, selection: Selection): void {
    if (!knowsDurations(model.data)) return void nothing(element, `How long ${counted(selection.count, "exit")} took was not recorded`, kRecord);
    const row = chosenRow(choice);
    const bins = filled(selection.histogram);
    const count = bins.reduce((n, [, more]) => n + more, 0);
    if (row && !row.combos) return void nothing(element, `${clip(row.key, 60)}: ${counted(row.count, "exit")}, the longest ${duration(row.max_ns)}; they are not kept by their values`);
    if (count === 0) return void nothing(element, "No exits are in what is chosen: choose another row, or Clear");
    const more = isAll(choice) ? reasons!.rows.reduce((n, row) => n + row.count, 0) - count : 0;
    const what = choice.rows.length === 0 ? [model.hasHalts ? "All exits, with halts" : "All exits"]
      : choice.rows.flatMap((one, i) => [i ? " and " : "", name(clip(one.key, 50), one.by)]);
    entitle(element, ...what, row && !row.approximate ? `: half of ${counted(count, "exit")} took at most ${duration(row.p50_ns)}, the longest ${duration(row.max_ns)}`
      : `: half of ${counted(count, "exit")} took about ${atMost(ranked(bins, count, 500))} or less, the longest ${longest(choice, bins)}${more > 0 ? `; ${grouped(more)} more ${more === 1 ? "has" : "have"} no recorded end` : ""}`);
    ends.show([bins[0]![0], bins.at(-1)![0] + 1], choice.latency);
    shown = { choice, counts: new Map(bins) };
    drawBars(bins, choice, row);
    drawCells(choice, selection.heat);
  }

  const reasons = model.data.sets.find((one) => one.by === "reason" && one.left_out === 0); // if these are all
  const isAll = (choice: Choice): boolean => reasons !== undefined && choice.rows.length === 0 && !choice.time && !choice.latency;

  // Says how long the longest exit took. Of a choice only its bin is known.
  function longest(choice: Choice, bins: [number, number][]): string {
    return isAll(choice) ? duration(Math.max(...reasons!.rows.map((row) => row.max_ns))) : latencyRange(bins.at(-1)?.[0] ?? 0);
  }

  function drawBars(bins: [number, number][], choice: Choice, row?: Group): void {
    const [from, to] = choice.latency ?? [0, kLatencyBins];
    const side = (inside: boolean): Map<number, number> => new Map(bins.filter(([bin]) => (bin >= from && bin < to) === inside));
    const most = Math.max(1, ...bins.map(([, n]) => n));
    drawDistribution(bars, "Latency distribution", widthOf(left, 460), { to: most * (row ? kUnderNames : 1), label: "exits", say: grouped }, [side(true), side(false)]);
    const marks = row ? ([["p50", row.p50_ns], ["p90", row.p90_ns], ["p99", row.p99_ns], ["max", row.max_ns]] as const) : [];
    bars.mark(...marks.flatMap(([label, ns]) => (ns === null ? [] : [{ x: ns,
      element: h("div", { class: "mark", title: row!.approximate ? "" : exact(ns) }, h("span", {}, `${label} ${row!.approximate ? "≈ " : ""}${duration(ns)}`)) }])));
  }

  function choose(bin: number): void {
    const { choice, counts } = shown!;
    if (!counts.has(bin)) return;
    change({ latency: choice.latency?.[0] === bin && choice.latency[1] === bin + 1 ? null : [bin, bin + 1] });
  }

  // Draws the chart only when other rows are chosen. An interval is marked over the chart.
  function drawCells(choice: Choice, next: Heat): void {
    if (isNew(next, ...model.inSight(choice))) {
      heat = next;
      overTime.element.setAttribute("aria-label", `Exits by time and latency; the fullest of the cells has ${counted(heat.most, "exit")}`);
      overTime.draw(Math.max(280, widthOf(right, 460)), { ...model.scaleOf(choice), label: `begin of the exit; stronger: more exits, up to ${grouped(heat.most)} in a cell`, say: sinceStart },
        { from: edge(heat.first), to: edge(heat.last), log: true, say: duration }, [model.edges(), model.edges().fill(1)]);
    }
    overTime.select(model.chosen(choice));
  }

  function cellsOf(heat: Heat): Cell[] {
    const list: Cell[] = [];
    heat.counts.forEach((n, at) => {
      if (n === 0) return;
      const [time, bin] = [Math.floor(at / kLatencyBins), at % kLatencyBins];
      list.push([model.edge(time), edge(bin), model.edge(time + 1), edge(bin + 1), Math.log1p(n) / Math.log1p(heat.most)]);
    });
    return list;
  }

  function read(bin: number, time?: number): void {
    const n = (time === undefined ? shown?.counts.get(bin) : heat?.counts[time * kLatencyBins + bin]) ?? 0;
    reading.textContent = `${time === undefined ? "" : `${moment(model.edge(time), 3)}, `}${latencyRange(bin)}: ${counted(n, "exit")}`;
  }

  return { element, draw };
}
