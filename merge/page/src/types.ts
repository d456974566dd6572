// The page's data, version 3: docs/formats/page.md. Times are integers of the recording's unit (ns,
// or cycles) and count from the start of the interval; what could pass 2^53 is a string.

// A row of a table of the report, by the keys that docs/formats/report.md has; rows inside it are lists.
// The views that draw a row say which keys it has: rows.ts.
export type Fields = Record<string, any>;

// A table as every command writes it; unpack.ts makes a Recording of a report.
export interface Table {
  columns?: string[]; // the rows are lists under these keys
  rows?: unknown[];
  left_out?: number;
  [fact: string]: unknown;
}
export interface Report {
  version: number;
  head: Fields;
  tables: Record<string, Table>;
  notes: string[];
}

// A table with its rows as objects, and its facts beside them. If its columns are described by title and unit,
// the rows are lists.
export interface Rows {
  rows: Fields[];
  left_out: number;
  columns?: { title: string; unit: "text" | "count" | "duration" | "share" }[];
  [fact: string]: any;
}

// A part is null if the events do not show it; sums take null as 0.
export type Parts = Record<`${Part}_ns`, number>;

export interface Row extends Parts {
  key: string;
  count: number;
  total_ns: number;
  mean_ns: number;
  p50_ns: number;
  p90_ns: number | null; // null: too few values
  p99_ns: number | null;
  max_ns: number;
  unended_cost_ns: number; // of exits that did not end
  halts: boolean;
}

// The exits of one combination of values, one time bin and one latency bin, with sums over them.
export interface Cell extends Parts {
  time: number;
  combo: number;
  latency: number;
  count: number;
  total_ns: number;
}

// The states that are drawn; a vCPU's time also contains time that was not seen.
export const kStates = ["guest", "kernel", "user", "preempted", "blocked", "halted", "paused", "offline"] as const;
export type State = (typeof kStates)[number];
export const kParts = ["kernel", "user", "preempted", "blocked", "halted"] as const;
export type Part = (typeof kParts)[number];
// The parts of a guest function's own time.
export const kOwn = ["guest", ...kParts] as const;

export interface Vcpu extends Parts {
  name: string;
  tid: number; life?: number;
  guest_ns: number;
  shares: Record<State | "not_seen", number[]>;
}

export interface Lost {
  cpu: number;
  from: number;
  to: number;
  count: number; // 0: the kernel did not say
}

export interface WorstExit extends Parts {
  start: number;
  total_ns: number;
  vcpu: string;
  tid: number;
  reason: string;
  detail: string;
  device: string;
  function: string;
  preempted_by: string;
  waits: ExitWait[]; // the longest
  neighbourhood: number | null;
}

// preempted or blocked, by whom, begin, end
export type ExitWait = ["preempted" | "blocked", string, number, number];

// lane, begin, end, kind, text
export type NearSpan = [number, number, number, string, string];
// lane, time, text, whose
export type NearEvent = [number, number, string, string];
export interface Neighbourhood {
  from: number;
  to: number;
  lanes: string[];
  spans: NearSpan[];
  events: NearEvent[];
  left_out: number;
}

export const kDimensions = ["reason", "detail", "device", "qemu-event", "stack", "vcpu"] as const;
export type Dimension = (typeof kDimensions)[number];

export interface Recording {
  command: string[]; // the words that print this report
  interval: { start_ns: string; end_ns: string };
  glosses: string[]; // what reasons mean: "io: the guest accessed a port"
  duration_ns: number;
  time_unit: "ns" | "cycles";
  user_end: string;
  above: string[]; // what the text begins with, in pairs: a label ("LOST:") or none, and a sentence
  next: string[]; // in pairs: a command, and what it answers
  notes: string[];
  time: { origin: number; bin_ns: number; bins: number }; // bin 0 begins at origin, 0 or before
  vcpus: Vcpu[];
  values: Record<Dimension, string[]>;
  combos: number[][]; // indices into values, in the order of kDimensions
  cells: Cell[];
  sets: { by: string; rows: Row[]; left_out: number }[];
  waits: Record<"preempted" | "blocked", Rows>; // `time` of a row: pairs of a time bin and ns
  worst: WorstExit[];
  neighbourhoods: Neighbourhood[];
  left_out: string[]; // sentences: what was thinned out
  counters: Record<string, number>;
  tables: Record<string, Rows>; // all others
}

// The changes (docs/formats/diff.md), with the facts of the comparison beside them, and the runs of each side.
export interface Comparison extends Rows {
  before: Fields[];
  after: Fields[];
}

export interface PageData {
  format: "trapline-page";
  version: number;
  recordings: Report[]; // one; two where they are compared
  comparison?: Report;
}
