// The recording's cells, and what is summed from them for a choice.
//
// Counts and totals of any selection are exact sums of cells; percentiles of a selection are known to a latency bin.
import type { Choice, Filter } from "./choice";
import { duration } from "./text";
import { kDimensions, type Cell, type Dimension, type Lost, type Parts, type Recording, type Row } from "./types";

export const kLatencyBins = 64 * 4;

// Bin b holds [low(b), low(b + 1)): four to each power of two (docs/formats/page.md).
export function low(bin: number): number {
  return Math.floor(edge(bin));
}

// Returns the begin of a bin on an axis, which is no integer for bins of less than a ns.
export function edge(bin: number): number {
  return 2 ** (bin >> 2) * (1 + (bin & 3) / 4);
}

// Returns the bin of a place on the axis.
export function binOf(ns: number): number {
  const octave = Math.floor(Math.log2(ns));
  return octave * 4 + Math.floor((ns / 2 ** octave - 1) * 4);
}

export interface Group extends Row {
  histogram: [bin: number, count: number][];
  approximate: boolean; // percentiles, minimum and maximum are those of latency bins
  combos: boolean; // the cells know it: it can be looked into
}

// Returns the cost of exits as the report has it: without waits for a CPU and halted time.
export const cost = (row: Parts & { unended_cost_ns?: number }): number =>
  row.kernel_ns + row.user_ns + row.blocked_ns + (row.unended_cost_ns ?? 0);

// The exits of the chosen rows in each cell of the heatmap, at all times and latencies, so that it is
// the same until other rows are chosen.
export interface Heat {
  counts: Float64Array; // at time bin * kLatencyBins + latency bin
  first: number; // latency bins that have exits: first <= bin < last
  last: number;
  most: number;
}

export type Selection = ReturnType<Model["select"]>;

// Returns the bins that have exits, each with its count.
export function filled(bins: Float64Array): [number, number][] {
  const list: [number, number][] = [];
  bins.forEach((n, bin) => { if (n > 0) list.push([bin, n]); });
  return list;
}

// Returns the bin of a percentile, given in thousandths.
export function ranked(bins: [number, number][], count: number, perMille: number): number {
  let rank = Math.max(1, Math.ceil((perMille * count) / 1000));
  return bins.find(([, n]) => (rank -= n) <= 0)?.[0] ?? 0;
}

// Returns null in the tail if no value lies above it: a p99 of fewer than 100 would be their maximum.
function percentile(bins: [number, number][], count: number, perMille: number): number | null {
  return perMille > 500 && Math.ceil((perMille * count) / 1000) >= count ? null : middle(ranked(bins, count, perMille));
}

// Returns the middle of a bin, which is within 12 % of all values in the bin.
function middle(bin: number): number {
  return Math.round((low(bin) + low(bin + 1)) / 2);
}

const kWorthFolding = 0.03; // of the recording: a shorter time before the VM ran is shown
const noExits = () => ({ count: 0, total_ns: 0, kernel_ns: 0, user_ns: 0, preempted_ns: 0, blocked_ns: 0, halted_ns: 0 });
type Sums = ReturnType<typeof noExits>;

export class Model {
  readonly losses: Lost[];
  readonly begin: number; // the bin in which the first vCPU ran, if the time before is worth folding
  readonly hasHalts: boolean;
  private readonly keys = new Map<string, string[]>();
  private heat: { rows: string; heat: Heat } | null = null;

  constructor(readonly data: Recording) {
    this.losses = (data.tables.lost?.rows ?? []) as Lost[];
    const bins = data.time.bins;
    const first = Math.min(bins, ...data.vcpus.flatMap(({ shares: { offline: _, paused: __, ...others } }) => Object.values(others).map((list) => list.findIndex((ns) => ns > 0)).filter((bin) => bin >= 0)));
    this.begin = first < bins && first >= bins * kWorthFolding ? first : 0;
    this.hasHalts = data.combos.some((_, combo) => this.isHalt(combo));
  }

  // Returns the begin of a bin, within the interval.
  edge(bin: number): number {
    const { origin, bin_ns } = this.data.time;
    return Math.max(0, Math.min(this.data.duration_ns, origin + bin * bin_ns));
  }

  // Returns the length of a bin within the interval, at least 1.
  length(bin: number): number {
    return Math.max(1, this.edge(bin + 1) - this.edge(bin));
  }

  // Returns the begin of each bin, then the end of the last one.
  edges(): number[] {
    return Array.from({ length: this.data.time.bins + 1 }, (_, bin) => this.edge(bin));
  }

  // Returns the bins that are in sight; scaleOf() returns their times.
  inSight({ view }: Choice): [number, number] {
    return view ?? [this.begin, this.data.time.bins];
  }
  scaleOf(choice: Choice): { from: number; to: number } {
    const [from, to] = this.inSight(choice).map((bin) => this.edge(bin)) as [number, number];
    return { from, to: Math.max(from + 1, to) };
  }

  // Returns the times at the ends of the chosen interval.
  chosen({ time }: Pick<Choice, "time">): [number, number] | null {
    return time && [this.edge(time[0]), this.edge(time[1])];
  }

  // Says the length of the time before the VM ran, and what was lost in it.
  before(how: string): string {
    const edge = this.edge(this.begin);
    const lost = this.losses.filter(({ to }) => to < edge).length;
    return `The first ${duration(edge)}, before a guest first ran, are ${how}${lost > 0 ? `, with ${lost} ${lost === 1 ? "loss" : "losses"} in them` : ""}`;
  }

  binAt(ns: number): number {
    const { origin, bin_ns, bins } = this.data.time;
    return Math.max(0, Math.min(bins - 1, Math.floor((ns - origin) / bin_ns)));
  }

  // Returns the key of the row to which each combination belongs.
  keysOf(by: string): string[] {
    const known = this.keys.get(by);
    if (known) return known;
    const value = (combo: number[], dimension: string): string => {
      const at = kDimensions.indexOf((dimension === "function" ? "stack" : dimension) as Dimension);
      const text = this.data.values[kDimensions[at] ?? "reason"][combo[at] ?? 0] ?? "";
      return dimension === "function" ? text.slice(text.lastIndexOf(";") + 1) : text;
    };
    const dimensions = by.split(",");
    // Halts are one row where the reason is not asked for.
    const one = !dimensions.includes("reason");
    const keys = this.data.combos.map((combo, i) => (one && this.isHalt(i) ? "[halted]" : dimensions.map((d) => value(combo, d)).join(" / ")));
    this.keys.set(by, keys);
    return keys;
  }

  // Returns 1 for each combination that passes the chosen rows.
  private passing(rows: Filter[]): Uint8Array {
    const pass = new Uint8Array(this.data.combos.length).fill(1);
    for (const row of rows) {
      const keys = this.keysOf(row.by);
      for (let i = 0; i < pass.length; ++i) if (keys[i] !== row.key) pass[i] = 0;
    }
    return pass;
  }

  private each({ time, latency }: Choice, pass: Uint8Array, visit: (cell: Cell) => void): void {
    const [t0, t1] = time ?? [0, Infinity];
    const [l0, l1] = latency ?? [0, Infinity];
    for (const cell of this.data.cells) {
      if (cell.time >= t0 && cell.time < t1 && cell.latency >= l0 && cell.latency < l1 && pass[cell.combo]) visit(cell);
    }
  }

  // Returns the sums of each row of the shown table, over the cells that pass `others`, the rows chosen in other tables.
  private sumsBy(choice: Choice, others: Filter[]): Map<string, { sums: Sums; bins: Float64Array }> {
    const groups = new Map<string, { sums: Sums; bins: Float64Array }>();
    const of = this.keysOf(choice.by).map((key) => {
      const group = groups.get(key) ?? { sums: noExits(), bins: new Float64Array(kLatencyBins) };
      groups.set(key, group);
      return group;
    });
    this.each(choice, this.passing(others), (cell) => {
      const { sums, bins } = of[cell.combo]!;
      // A loop over the keys takes twice as long, in each frame of brushing.
      sums.count += cell.count;
      sums.total_ns += cell.total_ns;
      sums.kernel_ns += cell.kernel_ns;
      sums.user_ns += cell.user_ns;
      sums.preempted_ns += cell.preempted_ns;
      sums.blocked_ns += cell.blocked_ns;
      sums.halted_ns += cell.halted_ns;
      bins[cell.latency]! += cell.count;
    });
    for (const [key, { sums }] of groups) if (sums.count === 0) groups.delete(key);
    return groups;
  }

  // Returns the table's rows: exact if nothing is chosen but rows of the table itself.
  groups(choice: Choice): Group[] {
    const others = choice.rows.filter((row) => row.by !== choice.by);
    const set = this.data.sets.find((one) => one.by === choice.by);
    const groups = this.sumsBy(choice, others);
    if (set && others.length === 0 && !choice.time && !choice.latency) {
      return set.rows.map((row) => {
        const bins = groups.get(row.key)?.bins;
        return { ...row, approximate: false, combos: bins !== undefined, histogram: bins ? filled(bins) : [] };
      });
    }
    const halts = new Map((set?.rows ?? []).map((row) => [row.key, row.halts]));
    return [...groups].map(([key, { sums, bins }]) => {
      const { count, total_ns } = sums;
      const histogram = filled(bins);
      return { ...sums, key, halts: halts.get(key) ?? false, histogram, approximate: true, combos: true, unended_cost_ns: 0,
        mean_ns: Math.floor(total_ns / Math.max(1, count)), p50_ns: percentile(histogram, count, 500) ?? 0,
        p90_ns: percentile(histogram, count, 900), p99_ns: percentile(histogram, count, 990),
        max_ns: middle(histogram.at(-1)?.[0] ?? 0) };
    });
  }

  // Returns the heatmap of the chosen rows, at all times.
  private heatOf(choice: Choice, pass: Uint8Array): Heat {
    const rows = JSON.stringify(choice.rows);
    if (this.heat?.rows === rows) return this.heat.heat;
    const heat: Heat = { counts: new Float64Array(this.data.time.bins * kLatencyBins), first: kLatencyBins, last: 0, most: 1 };
    this.each({ ...choice, time: null, latency: null }, pass, (cell) => {
      const { time, latency, count } = cell;
      heat.most = Math.max(heat.most, (heat.counts[time * kLatencyBins + latency]! += count));
      heat.first = Math.min(heat.first, latency);
      heat.last = Math.max(heat.last, latency + 1);
    });
    this.heat = { rows, heat };
    return heat;
  }

  // Sums up what is chosen. The histogram and the heatmap also have the exits of other latencies.
  select(choice: Choice) {
    const pass = this.passing(choice.rows);
    const selection = {
      count: 0,
      cost: 0, // without waits for a CPU and halts
      histogram: new Float64Array(kLatencyBins), // exits by latency bin, those of other latencies as well
      heat: this.heatOf(choice, pass),
      byTime: new Float64Array(this.data.time.bins), // total by time bin
      counts: new Float64Array(this.data.combos.length), // by combination
      totals: new Float64Array(this.data.combos.length),
    };
    const [l0, l1] = choice.latency ?? [0, kLatencyBins];
    this.each({ ...choice, latency: null }, pass, (cell) => {
      const { time, combo, latency, count, total_ns } = cell;
      selection.histogram[latency]! += count;
      if (latency < l0 || latency >= l1) return;
      selection.count += count;
      selection.cost += cost(cell);
      selection.byTime[time]! += total_ns;
      selection.counts[combo]! += count;
      selection.totals[combo]! += total_ns;
    });
    return selection;
  }

  isHalt(combo: number): boolean {
    return this.data.combos[combo]?.[kDimensions.length] === 1;
  }
}
