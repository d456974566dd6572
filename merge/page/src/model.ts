// The recording's cells, and what is summed from them for a choice.
//
// A cell is the exits of one combination of values, one time bin and one latency bin. Counts and
// totals of any selection are exact sums; percentiles of a selection are known to a latency bin.
import type { Choice, Filter } from "./choice";
import { kDimensions, type Dimension, type Recording, type Row } from "./types";

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
  histogram: number[]; // bin, count, bin, count, …
  approximate: boolean; // percentiles, minimum and maximum are those of latency bins
  combos: boolean; // the cells know it: it can be looked into
}

// How many exits each cell of the heatmap has; it keeps the other times and latencies in sight, so
// that it is the same until other rows are chosen.
export interface Heat {
  counts: Float64Array; // at time bin * kLatencyBins + latency bin
  first: number; // latency bins that have exits: first <= bin < last
  last: number;
  most: number;
}

export interface Selection {
  count: number;
  total: number;
  histogram: Float64Array; // exits by latency bin, those of other latencies as well
  heat: Heat;
  byTime: Float64Array; // total by time bin
  counts: Float64Array; // by combination
  totals: Float64Array;
}

// The bins that have exits, with their numbers.
export function filled(bins: Float64Array): [number, number][] {
  const list: [number, number][] = [];
  bins.forEach((n, bin) => { if (n > 0) list.push([bin, n]); });
  return list;
}

// Of the tail only where values lie above it: a p99 of fewer than 100 would be their maximum.
function percentile(bins: [number, number][], count: number, perMille: number): number | null {
  let rank = Math.max(1, Math.ceil((perMille * count) / 1000));
  if (perMille > 500 && rank >= count) return null;
  for (const [bin, n] of bins) {
    rank -= n;
    if (rank <= 0) return middle(bin);
  }
  return 0;
}

// A bin's edges are no measured values: what is in it is known to 12 % by its middle.
function middle(bin: number): number {
  return Math.round((low(bin) + low(bin + 1)) / 2);
}

const kSums = 6; // of a cell: count, total, user, preempted, blocked, halted

export class Model {
  readonly vcpuTime: number; // of all vCPUs
  readonly hasHalts: boolean;
  // One element for each cell (kSums for each in `sums`), in the order of the time bins.
  private readonly combo: Int32Array;
  private readonly latency: Int32Array;
  private readonly time: Int32Array;
  private readonly sums: Float64Array;
  private readonly begins: Int32Array; // by time bin: its first cell
  private readonly keys = new Map<string, string[]>();
  private readonly whole = new Map<string, Map<string, number[]>>();
  private readonly halts: Uint8Array; // by combination
  private heat: { rows: string; heat: Heat } | null = null;

  constructor(readonly data: Recording) {
    this.vcpuTime = Math.max(1, data.vcpus.reduce((n, vcpu) => n + vcpu.time_ns, 0));
    const bins = data.time.bins;
    this.begins = new Int32Array(bins + 1);
    for (const flat of data.cells) for (let i = 0; i + 7 < flat.length; i += 8) this.begins[this.bin(flat[i]) + 1]! += 1;
    for (let bin = 0; bin < bins; ++bin) this.begins[bin + 1]! += this.begins[bin]!;
    const cells = this.begins[bins]!;
    this.combo = new Int32Array(cells);
    this.time = new Int32Array(cells);
    this.latency = new Int32Array(cells);
    this.sums = new Float64Array(cells * kSums);
    const next = this.begins.slice();
    data.cells.forEach((flat, combo) => {
      for (let i = 0; i + 7 < flat.length; i += 8) {
        const bin = this.bin(flat[i]);
        const cell = next[bin]!++;
        this.combo[cell] = combo;
        this.time[cell] = bin;
        this.latency[cell] = Math.min(flat[i + 1] ?? 0, kLatencyBins - 1);
        for (let k = 0; k < kSums; ++k) this.sums[cell * kSums + k] = flat[i + 2 + k] ?? 0;
      }
    });
    this.halts = Uint8Array.from(data.combos, (combo) => combo[kDimensions.length] ?? 0);
    this.hasHalts = this.halts.includes(1);
  }

  private bin(bin: number | undefined): number {
    return Math.max(0, Math.min(bin ?? 0, this.data.time.bins - 1));
  }

  // Where a bin begins, within the interval.
  edge(bin: number): number {
    const { origin, bin_ns } = this.data.time;
    return Math.max(0, Math.min(this.data.duration_ns, origin + bin * bin_ns));
  }

  // Returns the begin of each bin, then the end of the last one.
  edges(): number[] {
    return Array.from({ length: this.data.time.bins + 1 }, (_, bin) => this.edge(bin));
  }

  binAt(ns: number): number {
    const { origin, bin_ns, bins } = this.data.time;
    return Math.max(0, Math.min(bins - 1, Math.floor((ns - origin) / bin_ns)));
  }

  // The group that each combination belongs to.
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

  // Latency bins of every row, of the whole recording.
  private histograms(by: string): Map<string, number[]> {
    const known = this.whole.get(by);
    if (known) return known;
    const bins = new Map<string, Float64Array>();
    const keys = this.keysOf(by);
    for (let cell = 0; cell < this.combo.length; ++cell) {
      const key = keys[this.combo[cell]!]!;
      let of = bins.get(key);
      if (!of) bins.set(key, (of = new Float64Array(kLatencyBins)));
      of[this.latency[cell]!]! += this.sums[cell * kSums]!;
    }
    const flat = new Map([...bins].map(([key, of]) => [key, filled(of).flat()]));
    this.whole.set(by, flat);
    return flat;
  }

  // Which combinations pass the chosen rows; `except` is the table's own dimension.
  private passing(rows: Filter[], except?: string): Uint8Array {
    const pass = new Uint8Array(this.data.combos.length).fill(1);
    for (const row of rows) {
      if (row.by === except) continue;
      const keys = this.keysOf(row.by);
      for (let i = 0; i < pass.length; ++i) if (keys[i] !== row.key) pass[i] = 0;
    }
    return pass;
  }

  private each(choice: Choice, pass: Uint8Array, visit: (cell: number) => void): void {
    const bins = this.data.time.bins;
    const [t0, t1] = choice.time ?? [0, bins];
    const [l0, l1] = choice.latency ?? [0, kLatencyBins];
    const end = this.begins[Math.min(t1, bins)]!;
    for (let i = this.begins[Math.min(t0, bins)]!; i < end; ++i) {
      const l = this.latency[i]!;
      if (l >= l0 && l < l1 && pass[this.combo[i]!]) visit(i);
    }
  }

  // The table's rows: exact where nothing is chosen but rows of the table itself.
  groups(choice: Choice): Group[] {
    const others = choice.rows.filter((row) => row.by !== choice.by);
    const set = this.data.sets.find((one) => one.by === choice.by);
    if (set && others.length === 0 && !choice.time && !choice.latency) {
      const histograms = this.histograms(choice.by);
      return set.rows.map((row) => {
        const histogram = histograms.get(row.key);
        return { ...row, approximate: false, combos: histogram !== undefined, histogram: histogram ?? [] };
      });
    }
    const keys = this.keysOf(choice.by);
    const halts = new Map((set?.rows ?? []).map((row) => [row.key, row.halt]));
    const groups = new Map<string, { sums: Float64Array; bins: Float64Array }>();
    const of: ({ sums: Float64Array; bins: Float64Array } | undefined)[] = new Array(keys.length);
    this.each(choice, this.passing(others), (cell) => {
      const combo = this.combo[cell]!;
      let group = of[combo];
      if (!group) {
        const key = keys[combo]!;
        group = groups.get(key);
        if (!group) groups.set(key, (group = { sums: new Float64Array(kSums), bins: new Float64Array(kLatencyBins) }));
        of[combo] = group;
      }
      for (let k = 0; k < kSums; ++k) group.sums[k]! += this.sums[cell * kSums + k]!;
      group.bins[this.latency[cell]!]! += this.sums[cell * kSums]!;
    });
    return [...groups].map(([key, { sums, bins }]) => {
      const [count = 0, total = 0, user = 0, preempted = 0, blocked = 0, halted = 0] = sums;
      const sorted = filled(bins);
      return {
        key,
        halt: halts.get(key) ?? false,
        count,
        total_ns: total,
        kernel_ns: total - user - preempted - blocked - halted,
        user_ns: user,
        preempted_ns: preempted,
        blocked_ns: blocked,
        halted_ns: halted,
        unended_cost_ns: 0,
        min_ns: middle(sorted[0]?.[0] ?? 0),
        mean_ns: Math.floor(total / Math.max(1, count)),
        p50_ns: percentile(sorted, count, 500) ?? 0,
        p90_ns: percentile(sorted, count, 900),
        p99_ns: percentile(sorted, count, 990),
        max_ns: middle(sorted.at(-1)?.[0] ?? 0),
        histogram: sorted.flat(),
        approximate: true,
        combos: true,
      };
    });
  }

  // The exits of the chosen rows, at all times.
  private heatOf(choice: Choice, pass: Uint8Array): Heat {
    const rows = JSON.stringify(choice.rows);
    if (this.heat?.rows === rows) return this.heat.heat;
    const heat: Heat = { counts: new Float64Array(this.data.time.bins * kLatencyBins), first: kLatencyBins, last: 0, most: 1 };
    this.each({ ...choice, time: null, latency: null }, pass, (cell) => {
      const l = this.latency[cell]!;
      const at = this.time[cell]! * kLatencyBins + l;
      heat.most = Math.max(heat.most, (heat.counts[at]! += this.sums[cell * kSums]!));
      heat.first = Math.min(heat.first, l);
      heat.last = Math.max(heat.last, l + 1);
    });
    this.heat = { rows, heat };
    return heat;
  }

  // Everything that is chosen. The histogram and the heatmap keep the other latencies in sight.
  select(choice: Choice): Selection {
    const pass = this.passing(choice.rows);
    const selection: Selection = {
      count: 0,
      total: 0,
      histogram: new Float64Array(kLatencyBins),
      heat: this.heatOf(choice, pass),
      byTime: new Float64Array(this.data.time.bins),
      counts: new Float64Array(this.data.combos.length),
      totals: new Float64Array(this.data.combos.length),
    };
    const [l0, l1] = choice.latency ?? [0, kLatencyBins];
    this.each({ ...choice, latency: null }, pass, (cell) => {
      const count = this.sums[cell * kSums]!;
      const total = this.sums[cell * kSums + 1]!;
      const l = this.latency[cell]!;
      selection.histogram[l]! += count;
      if (l < l0 || l >= l1) return;
      const combo = this.combo[cell]!;
      selection.count += count;
      selection.total += total;
      selection.byTime[this.time[cell]!]! += total;
      selection.counts[combo]! += count;
      selection.totals[combo]! += total;
    });
    return selection;
  }

  isHalt(combo: number): boolean {
    return this.halts[combo] === 1;
  }
}
