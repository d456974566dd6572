// The recording's cells, and what is summed from them for a choice.
//
// A cell is the exits of one combination of values, one time bin and one latency bin. Counts and
// totals of any selection are exact sums; percentiles of a selection are known to a latency bin.
import type { Choice, Filter } from "./choice";
import { kDimensions, type Dimension, type Recording, type Row } from "./types";

export const kLatencyBins = 64 * 4;

// Bin b holds [low(b), low(b + 1)): four to each power of two (docs/formats/page.md).
export function low(bin: number): number {
  return Math.floor(2 ** (bin >> 2) * (1 + (bin & 3) / 4));
}

export interface Group extends Row {
  histogram: number[]; // bin, count, bin, count, …
  approximate: boolean; // percentiles, minimum and maximum are those of latency bins
  combos: boolean; // the cells know it: it can be looked into
}

export interface Selection {
  count: number;
  total: number;
  histogram: Map<number, number>;
  heat: Map<number, number>; // time bin * kLatencyBins + latency bin -> count
  byTime: Map<number, number>; // time bin -> total
  combos: Map<number, [number, number]>; // combo -> count, total
}

function percentile(bins: [number, number][], count: number, perMille: number): number {
  let rank = Math.max(1, Math.ceil((perMille * count) / 1000));
  for (const [bin, n] of bins) {
    rank -= n;
    if (rank <= 0) return Math.round((low(bin) + low(bin + 1)) / 2);
  }
  return 0;
}

export class Model {
  readonly wall: number; // of all vCPUs
  private readonly combo: Int32Array;
  private readonly time: Int32Array;
  private readonly latency: Int32Array;
  private readonly sums: Float64Array; // per cell: count, total, user, preempted, blocked
  private readonly keys = new Map<string, string[]>();
  private readonly whole = new Map<string, Map<string, number[]>>();

  constructor(readonly data: Recording) {
    this.wall = Math.max(1, data.duration_ns * data.vcpus.length);
    const cells = data.cells.reduce((n, flat) => n + flat.length / 7, 0);
    this.combo = new Int32Array(cells);
    this.time = new Int32Array(cells);
    this.latency = new Int32Array(cells);
    this.sums = new Float64Array(cells * 5);
    let cell = 0;
    data.cells.forEach((flat, combo) => {
      for (let i = 0; i + 6 < flat.length; i += 7) {
        this.combo[cell] = combo;
        this.time[cell] = flat[i] ?? 0;
        this.latency[cell] = flat[i + 1] ?? 0;
        for (let k = 0; k < 5; ++k) this.sums[cell * 5 + k] = flat[i + 2 + k] ?? 0;
        ++cell;
      }
    });
  }

  // Where a bin begins, within the interval.
  edge(bin: number): number {
    const { origin, bin_ns } = this.data.time;
    return Math.max(0, Math.min(this.data.duration_ns, origin + bin * bin_ns));
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
    const keys = this.data.combos.map((combo) => dimensions.map((d) => value(combo, d)).join(" / "));
    this.keys.set(by, keys);
    return keys;
  }

  // Latency bins of every row, of the whole recording.
  private histograms(by: string): Map<string, number[]> {
    const known = this.whole.get(by);
    if (known) return known;
    const bins = new Map<string, Map<number, number>>();
    const keys = this.keysOf(by);
    for (let cell = 0; cell < this.combo.length; ++cell) {
      const key = keys[this.combo[cell] as number] as string;
      let of = bins.get(key);
      if (!of) bins.set(key, (of = new Map()));
      const bin = this.latency[cell] as number;
      of.set(bin, (of.get(bin) ?? 0) + (this.sums[cell * 5] ?? 0));
    }
    const flat = new Map([...bins].map(([key, of]) => [key, [...of].sort((a, b) => a[0] - b[0]).flat()]));
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

  private each(choice: Choice, pass: Uint8Array, visit: (cell: number) => void, latency = true): void {
    const [t0, t1] = choice.time ?? [0, Infinity];
    const [l0, l1] = (latency ? choice.latency : null) ?? [0, Infinity];
    for (let i = 0; i < this.combo.length; ++i) {
      const t = this.time[i] as number;
      const l = this.latency[i] as number;
      if (t >= t0 && t < t1 && l >= l0 && l < l1 && pass[this.combo[i] as number]) visit(i);
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
    const groups = new Map<string, { sums: number[]; bins: Map<number, number> }>();
    this.each(choice, this.passing(others), (cell) => {
      const key = keys[this.combo[cell] as number] as string;
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { sums: [0, 0, 0, 0, 0], bins: new Map() }));
      for (let k = 0; k < 5; ++k) group.sums[k] = (group.sums[k] ?? 0) + (this.sums[cell * 5 + k] ?? 0);
      const bin = this.latency[cell] as number;
      group.bins.set(bin, (group.bins.get(bin) ?? 0) + (this.sums[cell * 5] ?? 0));
    });
    return [...groups].map(([key, { sums, bins }]) => {
      const [count = 0, total = 0, user = 0, preempted = 0, blocked = 0] = sums;
      const sorted = [...bins].sort((a, b) => a[0] - b[0]);
      return {
        key,
        halt: halts.get(key) ?? false,
        count,
        total_ns: total,
        kernel_ns: total - user - preempted - blocked,
        user_ns: user,
        preempted_ns: preempted,
        blocked_ns: blocked,
        min_ns: low(sorted[0]?.[0] ?? 0),
        mean_ns: Math.floor(total / Math.max(1, count)),
        p50_ns: percentile(sorted, count, 500),
        p90_ns: percentile(sorted, count, 900),
        p99_ns: percentile(sorted, count, 990),
        p999_ns: percentile(sorted, count, 999),
        max_ns: low((sorted.at(-1)?.[0] ?? 0) + 1),
        max_at: 0,
        histogram: sorted.flat(),
        approximate: true,
        combos: true,
      };
    });
  }

  // Everything that is chosen. The histogram and the heatmap keep the other latencies in sight.
  select(choice: Choice): Selection {
    const selection: Selection = {
      count: 0,
      total: 0,
      histogram: new Map(),
      heat: new Map(),
      byTime: new Map(),
      combos: new Map(),
    };
    const add = (map: Map<number, number>, at: number, n: number): void => {
      map.set(at, (map.get(at) ?? 0) + n);
    };
    const [l0, l1] = choice.latency ?? [0, Infinity];
    const pass = this.passing(choice.rows);
    const heat = (cell: number): void => {
      add(selection.heat, (this.time[cell] ?? 0) * kLatencyBins + (this.latency[cell] ?? 0), this.sums[cell * 5] ?? 0);
    };
    this.each({ ...choice, time: null }, pass, heat, false);
    this.each(
      choice,
      pass,
      (cell) => {
        const [count, total] = [this.sums[cell * 5] ?? 0, this.sums[cell * 5 + 1] ?? 0];
        const l = this.latency[cell] ?? 0;
        add(selection.histogram, l, count);
        if (l < l0 || l >= l1) return;
        selection.count += count;
        selection.total += total;
        add(selection.byTime, this.time[cell] ?? 0, total);
        const combo = this.combo[cell] ?? 0;
        const sums = selection.combos.get(combo) ?? [0, 0];
        selection.combos.set(combo, [sums[0] + count, sums[1] + total]);
      },
      false,
    );
    return selection;
  }

  isHalt(combo: number): boolean {
    const reasons = this.data.sets.find((set) => set.by === "reason");
    const key = this.keysOf("reason")[combo];
    return reasons?.rows.find((row) => row.key === key)?.halt ?? false;
  }
}
