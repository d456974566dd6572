// From the page's data as it is written, short, to what the views read: docs/formats/page.md.
import { kDimensions, type Comparison, type DescribedTable, type ExitWait, type Neighbourhood, type NearEvent, type NearSpan, type Recording, type Report, type Row, type RowSet, type Table, type TimelineData, type TreeNode, type WaitRow, type WaitTable, type WorstExit } from "./types";

const kLanes = ["guest", "kernel", "QEMU", "others"];
const kKinds: [string, number, string][] = [["guest", 0, "guest"], ["kernel", 1, "kernel"], ["user", 2, "QEMU"], ["preempted", 1, "preempted"], ["blocked", 1, "blocked"], ["halted", 1, "halted"], ["handler", 2, ""]];
const kHandler = 6;
const kBlocked = 3; // of Part
const kOthers = 3; // of the lanes

type Object = Record<string, unknown>;

// A table's rows as objects; a row's children as lists.
function rowsOf(table: Table | undefined, ...children: string[]): Object[] {
  const columns = table?.columns;
  const rows = (table?.rows ?? []) as (unknown[] | Object)[];
  return rows.map((row) => {
    if (columns) return Object.fromEntries(columns.map((column, i) => [column, (row as unknown[])[i]]));
    const object: Object = { ...(row as Object) };
    for (const child of children) object[child] = (object[child] as Table | undefined)?.rows ?? [];
    return object;
  });
}

function spansOf(flat: number[], from: number, texts: string[]): NearSpan[] {
  const spans: NearSpan[] = [];
  let begin = from;
  for (let i = 0; i + 2 < flat.length; i += 3) {
    const number = flat[i] ?? 0;
    const [kind, lane, text] = kKinds[number] ?? ["kernel", 1, "?"];
    begin += flat[i + 1] ?? 0;
    const end = begin + (flat[i + 2] ?? 0);
    spans.push([lane, begin, end, kind, number === kHandler ? (texts[flat[i + 3] ?? 0] ?? "") : text]);
    if (number === kHandler) ++i;
  }
  return spans;
}

function eventsOf(flat: number[], from: number, texts: string[]): NearEvent[] {
  const events: NearEvent[] = [];
  let at = from;
  for (let i = 0; i + 3 < flat.length; i += 4) {
    at += flat[i + 1] ?? 0;
    events.push([flat[i] ?? 0, at, texts[flat[i + 2] ?? 0] ?? "", texts[flat[i + 3] ?? 0] ?? ""]);
  }
  return events;
}

// Of each combination: time bin, latency bin, count, total, user, preempted, blocked, halted of each cell.
export function unpackCells(cells: number[][], latencyBins: number): number[][] {
  return cells.map((flat) => {
    const full: number[] = [];
    let time = 0;
    for (let i = 0; i < flat.length; ) {
      const place = flat[i++] ?? 0;
      const given = place % 32;
      const bin = Math.floor(place / 32);
      time += Math.floor(bin / latencyBins);
      const next = (bit: number, none: number): number => (given & bit ? (flat[i++] ?? 0) : none);
      const count = next(1, 1);
      const total = flat[i++] ?? 0;
      full.push(time, bin % latencyBins, count, total, next(2, 0), next(4, 0), next(8, 0), next(16, 0));
    }
    return full;
  });
}

function waitsOf(table: Table | undefined): WaitTable {
  const rows = rowsOf(table).map((row) => {
    const steps = row["time"] as number[];
    const time: [number, number][] = [];
    for (let i = 0, bin = 0; i + 1 < steps.length; i += 2) {
      bin += steps[i] ?? 0;
      time.push([bin, steps[i + 1] ?? 0]);
    }
    return { ...row, time } as unknown as WaitRow;
  });
  return { total_ns: (table?.["total_ns"] ?? null) as number | null, rows, rows_left_out: table?.left_out ?? 0 };
}

function worstOf(table: Table | undefined, texts: string[]): WorstExit[] {
  const named = new Set(["vcpu", "reason", "detail", "device", "function", "preempted_by"]);
  const value = (key: string, given: unknown): unknown => {
    if (named.has(key)) return texts[given as number];
    if (key !== "waits") return given;
    const flat = given as number[];
    const waits: ExitWait[] = [];
    for (let i = 0; i + 3 < flat.length; i += 4) {
      const [part, who, begin, length] = flat.slice(i, i + 4) as [number, number, number, number];
      waits.push([part === kBlocked ? "blocked" : "preempted", texts[who] ?? "", begin, begin + length]);
    }
    return waits;
  };
  return rowsOf(table).map((exit) => Object.fromEntries(Object.entries(exit).map(([key, given]) => [key, value(key, given)])) as unknown as WorstExit);
}

function described(table: Table): DescribedTable {
  return { ...table, rows_left_out: table.left_out ?? 0 } as unknown as DescribedTable;
}

function node(row: Object): TreeNode {
  const children = row["children"] as Table | undefined;
  return { ...row, ...(children ? { children: rowsOf(children).map(node) } : {}) } as unknown as TreeNode;
}

function guestSpansOf(tables: Record<string, Table>): Partial<Recording> {
  const spans = tables["spans"];
  if (!spans) return {};
  const worst = rowsOf(tables["span_worst"], "tree").map((row) => ({ ...row, tree: node((row["tree"] as Object[])[0] ?? {}) }));
  return { guest_spans: { ...spans, spec: spans["guest_span"], rows: rowsOf(spans), rows_left_out: spans.left_out, culprits: rowsOf(tables["span_culprits"]), worst } as unknown as NonNullable<Recording["guest_spans"]> };
}

// Returns the members whose tables are in the report only if the user asked for them.
function optional(tables: Record<string, Table>): Partial<Recording> {
  const { kernel, kernel_stacks, phases, stalls } = tables;
  return {
    ...(kernel ? { kernel: described(kernel) as unknown as NonNullable<Recording["kernel"]> } : {}),
    ...(kernel_stacks ? { kernel_stacks: rowsOf(kernel_stacks) as unknown as NonNullable<Recording["kernel_stacks"]> } : {}),
    ...(phases ? { phases: { rows: rowsOf(phases, "devices", "functions"), never: phases["never"] } as unknown as NonNullable<Recording["phases"]> } : {}),
    ...(stalls ? { stalls: { ...stalls, rows: rowsOf(stalls, "causes", "noticed") } as unknown as NonNullable<Recording["stalls"]> } : {}),
    ...guestSpansOf(tables),
  };
}

// A table whose columns are described has no view of its own, but the kernel's.
function othersOf(tables: Record<string, Table>): Recording["others"] {
  return Object.entries(tables).filter(([key, table]) => key !== "kernel" && typeof table.columns?.[0] === "object")
    .map(([key, table]) => ({ ...described(table), key }));
}

// Who ran instead of an exit's thread, and who woke it, are the lane of the others.
function withCulprits(near: Neighbourhood, exit: WorstExit | undefined): Neighbourhood {
  const culprits = (exit?.waits ?? []).map(([part, who, begin, end]): NearSpan => [kOthers, begin, end, "other", part === "blocked" ? `woken by ${who}` : who]);
  return { ...near, spans: [...near.spans, ...culprits] };
}

export function unpack({ head, tables, notes }: Report): Recording {
  const texts = (tables["worst"]?.["texts"] ?? []) as string[];
  const worst = worstOf(tables["worst"], texts);
  const values = (tables["combos"]?.["values"] ?? {}) as Record<string, string[]>;
  const lists = Object.fromEntries(["sources", "vcpus", "lost", "requests", "request_paths", "vhost", "halts", "guest_functions", "guest_stacks"].map((key) => [key, rowsOf(tables[key])]));
  const sets = Object.entries(tables).filter(([key]) => key.startsWith("by_")).map(([, set]): RowSet =>
    ({ by: set["by"] as string, rows_left_out: set.left_out ?? 0, rows: rowsOf(set).map((row) => ({ ...row, halt: row["halt"] === 1 }) as unknown as Row) }));
  return {
    ...head,
    ...lists,
    ...optional(tables),
    notes,
    command: head["words"],
    finding: head["finding"] ?? "",
    recorded: tables["recorded"]?.rows ?? [],
    counters: tables["counters"] ?? {},
    lost_left_out: tables["lost"]?.left_out ?? 0,
    irqs: { coalesced: tables["irqs"]?.["coalesced"], rows: rowsOf(tables["irqs"]) },
    others: othersOf(tables),
    waits: { preempted: waitsOf(tables["preempted"]), blocked: waitsOf(tables["blocked"]) },
    combos: tables["combos"]?.rows ?? [],
    cells: unpackCells((tables["cells"]?.rows ?? []) as number[][], 4 * 64),
    values: Object.fromEntries(kDimensions.map((d) => [d, values[d] ?? []])),
    sets,
    worst,
    neighbourhoods: rowsOf(tables["neighbourhoods"]).map((near, i): Neighbourhood => {
      const from = near["from"] as number;
      return withCulprits({
        from, to: from + (near["length"] as number), left_out: near["left_out"] as number, lanes: kLanes,
        spans: spansOf(near["spans"] as number[], from, texts), events: eventsOf(near["events"] as number[], from, texts),
      }, worst.find((exit) => exit.neighbourhood === i));
    }),
  } as unknown as Recording;
}

export function unpackComparison({ head, tables, notes }: Report): Comparison {
  const changes = tables["changes"];
  return { ...head, cycles: head["time_unit"] === "cycles", before: rowsOf(tables["before"]), after: rowsOf(tables["after"]), rows: rowsOf(changes), rows_left_out: changes?.left_out ?? 0, warnings: notes } as unknown as Comparison;
}

export function unpackTimeline(data: TimelineData): Neighbourhood {
  const text = (number: number): string => data.texts[number] ?? "";
  return {
    from: 0, to: Math.max(1, data.duration_ns), lanes: data.lanes, left_out: data.left_out,
    spans: data.spans.map(([lane, begin, length, kind, of]): NearSpan => [lane, begin, begin + length, (kKinds[kind] ?? kKinds[1]!)[0], text(of)]),
    events: data.events.map(([lane, at, of, whose]): NearEvent => [lane, at, text(of), text(whose)]),
  };
}
