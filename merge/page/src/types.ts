// The page's data, version 3: docs/formats/page.md. Times are integers of the recording's unit (ns,
// or cycles) and count from the start of the interval; what could pass 2^53 is a string.

// Of no values only the count and the total are numbers.
export interface Distribution {
  count: number;
  total_ns: number;
  min_ns: number;
  mean_ns: number;
  p50_ns: number;
  p90_ns: number | null; // null: too few values
  p99_ns: number | null;
  max_ns: number;
}

// null where the events do not tell it; what adds takes that as 0.
export interface Parts {
  kernel_ns: number;
  user_ns: number;
  preempted_ns: number;
  blocked_ns: number;
  halted_ns: number;
}

export interface Row extends Distribution, Parts {
  key: string;
  unended_cost_ns: number; // of exits that did not end
  halt: boolean;
}

export interface RowSet {
  by: string;
  rows: Row[];
  rows_left_out: number;
}

// Those that are drawn; a vCPU's time has what is not seen as well.
export const kStates = ["guest", "kernel", "user", "preempted", "blocked", "halted", "paused", "offline"] as const;
export type State = (typeof kStates)[number];
export const kParts = ["kernel", "user", "preempted", "blocked", "halted"] as const;
export type Part = (typeof kParts)[number];

export interface Vcpu extends Parts {
  name: string;
  vm: string;
  vcpu: number | null;
  tid: number;
  exits: number;
  guest_ns: number;
  time_ns: number;
  shares: Record<State | "not_seen", number[]>;
}

export interface Source {
  path: string;
  kind: string;
  clock: string;
  resolution_ns: number | null;
  events: number;
  lost: number | null; // null: a text that names none
  method: string;
  offset_ns: string;
  error_ns: string | null;
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

export interface RequestPath {
  key: string;
  notify_to_start: Distribution;
  end_to_injection: Distribution;
  notify_to_injection: Distribution;
  // Through the host's block layer, where its events were recorded.
  block?: Record<"start_to_bio" | "bio_to_issue" | "issue_to_complete" | "complete_to_end", Distribution>;
  irqfd?: number;
  posted?: number;
}

export interface VhostWorker {
  worker: string;
  tid: number;
  turns: number;
  notified: number;
  interrupts: number;
  preempted_ns: number;
  woken_to_run: Distribution;
  ran: Distribution;
  notify_to_interrupt: Distribution;
  raise_to_injection: Distribution;
}

export interface RequestRow extends Distribution {
  key: string;
}

export interface IrqRow {
  vector: string;
  pin: string;
  raised: number;
  injected: number;
  raise_to_inject: Distribution;
  raise_to_entry: Distribution;
  inject_to_eoi: Distribution;
}

export interface HaltRow {
  vm: string;
  vcpu: number | null;
  polls_won: Distribution;
  slept: Distribution;
  wake_to_run: Distribution;
}

// As the report's text has it; the columns' titles, and what their numbers are.
export interface DescribedTable {
  columns: { title: string; unit: "text" | "count" | "duration" | "share" }[];
  rows: (string | number | null)[][];
  rows_left_out: number;
}

export interface WaitRow {
  culprit: string;
  vm: string | null;
  ns: number;
  count: number;
  max_ns: number;
  time: [number, number][]; // time bin, ns
}

export interface WaitTable {
  total_ns: number | null; // null: not recorded
  rows: WaitRow[];
  rows_left_out: number;
}

export interface GuestFunction extends Parts {
  name: string;
  calls: number;
  exits: number;
  own_ns: number;
  guest_ns: number;
}

// What own time is made of.
export const kOwn = ["guest", "kernel", "user", "preempted", "blocked", "halted"] as const;

export interface GuestStack extends Parts {
  stack: string; // "main;f;g"
  guest_ns: number;
}

export interface PhaseShare {
  name: string | null;
  exits: number;
  total_ns: number;
}

export interface Phase extends Parts {
  name: string;
  pattern: string | null;
  start: number;
  ns: number;
  exits: number;
  guest_ns: number;
  paused_ns: number;
  offline_ns: number;
  not_seen_ns: number;
  devices: PhaseShare[];
  functions: PhaseShare[];
}

// Of a guest's interval: what its vCPU did meanwhile.
export const kSpanParts = ["guest", "kernel", "user", "preempted", "blocked", "halted", "not_recorded"] as const;
export type SpanParts = Record<`${(typeof kSpanParts)[number]}_ns`, number>;

export interface GuestSpanRow extends SpanParts {
  key: string;
  count: number;
  total_ns: number;
  p50_ns: number;
  p99_ns: number | null;
  max_ns: number;
}

export interface TreeNode {
  text: string;
  ns: number;
  count?: number;
  children?: TreeNode[];
}

export interface GuestSpans extends SpanParts {
  spec: string;
  clocks: string[];
  count: number;
  total_ns: number;
  p50_ns: number;
  max_ns: number;
  rows: GuestSpanRow[];
  rows_left_out: number;
  culprits: { part: string; culprit: string; ns: number; count: number }[];
  worst: { start: number; tree: TreeNode; sentence: string; advice: string | null; source: string | null }[];
  counters: Record<"restarted" | "end_only" | "open" | "unplaced", number>;
}

// A time in which a vCPU, or no vCPU of a VM, ran the guest.
export interface Stall {
  name: string;
  start: number;
  ns: number;
  open: boolean; // it lasts at the end
  exits: number | null;
  exit: string | null; // the longest
  causes: { cause: string; culprit: string | null; phase: string | null; text: string; ns: number }[]; // the largest first
  noticed: { what: string; after_ns: number; source: string }[]; // what a guest may notice
  finding: string;
}

// report --kernel. `whose`: "the kernel's"; "the kernel's or QEMU's" where the end of the kernel's was not recorded.
export interface KernelTable extends DescribedTable {
  total_ns: number | null;
  whose: string;
}

// A table for which the page has no view of its own.
export interface OtherTable extends DescribedTable {
  key: string;
}

// The kernel's time in exits by where it went: "reason;function();callee()".
export interface KernelStack {
  stack: string;
  ns: number;
}

export const kDimensions = ["reason", "detail", "device", "qemu-event", "stack", "vcpu"] as const;
export type Dimension = (typeof kDimensions)[number];

export interface Recording {
  recorded: [string, string][]; // what the session says: host, command, …
  command: string[]; // the words that print this report
  sources: Source[];
  interval: { start_ns: string; end_ns: string };
  glosses: string[]; // what reasons mean: "io: the guest accessed a port"
  duration_ns: number;
  time_unit: "ns" | "cycles";
  user_end: string;
  counters: Record<string, number>;
  finding: string; // the sentence that the text begins with; empty: not known
  notes: string[];
  missing: string[]; // of the notes those of events that no loss in the recording marks
  time: { origin: number; bin_ns: number; bins: number }; // bin 0 begins at origin, 0 or before
  latency: { per_octave: number };
  vcpus: Vcpu[];
  lost: Lost[];
  lost_left_out: number;
  values: Record<Dimension, string[]>;
  combos: number[][]; // indices into values, in the order of kDimensions
  cells: number[][]; // per combo, flat: time bin, latency bin, count, total, user, preempted, blocked, halted
  sets: RowSet[];
  requests: RequestRow[];
  request_paths: RequestPath[];
  vhost?: VhostWorker[];
  irqs: { coalesced: number; rows: IrqRow[] };
  halts: HaltRow[];
  kernel?: KernelTable; // with --kernel
  others: OtherTable[];
  waits: Record<"preempted" | "blocked", WaitTable>;
  guest_functions: GuestFunction[];
  guest_stacks: GuestStack[];
  kernel_stacks?: KernelStack[]; // with --kernel
  phases?: { rows: Phase[]; never: string[] };
  guest_spans?: GuestSpans;
  stalls?: { min_ns: number; count: number; total_ns: number; rows: Stall[] };
  worst: WorstExit[];
  neighbourhoods: Neighbourhood[];
  left_out: string[]; // sentences: what was thinned out
}

// As every command writes it (docs/formats/report.md); unpack.ts makes a Recording of it. Facts of a
// table are beside its rows.
export interface Table {
  columns?: string[]; // the rows are lists under these keys
  rows?: unknown[];
  left_out?: number;
  [fact: string]: unknown;
}
export interface Report {
  version: number;
  head: Record<string, unknown>;
  tables: Record<string, Table>;
  notes: string[];
}

// A figure of a compared row: docs/formats/diff.md.
export interface MetricChange {
  unit: string;
  before: number | null; // null: not known
  after: number | null;
  change: number | null; // null: not known, or from nothing
  before_runs: (number | null)[];
  after_runs: (number | null)[];
  tested: boolean;
  proven: boolean;
  low?: number | null;
  high?: number | null;
}
export const kMetrics = ["rate", "mean", "p50", "p99", "share", "cost", "kernel", "user", "preempted", "blocked", "halted"] as const;
export type Metric = (typeof kMetrics)[number];

export interface ComparedRow extends Record<Metric, MetricChange> {
  key: string;
  halts: boolean;
  before_count: number;
  after_count: number;
}

export interface Comparison {
  by: string;
  rows_of?: string;
  cycles: boolean;
  confidence: number;
  method: "none" | "student" | "permutation"; // none: too few runs to prove anything
  splits: number;
  tests: number;
  proven_changes: number;
  before: { path: string; exits: number }[];
  after: { path: string; exits: number }[];
  rows: ComparedRow[];
  rows_left_out: number;
  warnings: string[];
}

export interface PageData {
  format: "trapline-page";
  version: number;
  recordings: Report[]; // one; two where they are compared
  comparison?: Report;
}

// Of trapline timeline --format html.
export interface TimelineData {
  format: "trapline-timeline";
  version: number;
  command: string[];
  time_unit: "ns" | "cycles";
  start_ns: string;
  duration_ns: number;
  lanes: string[];
  texts: string[];
  spans: [lane: number, begin: number, length: number, kind: number, text: number][];
  events: [lane: number, at: number, text: number, whose: number][];
  left_out: number;
}
