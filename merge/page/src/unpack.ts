// Turns the page's data as it is written, short, into what the views read: docs/formats/page.md.
import { kLatencyBins } from "./model";
import type { Cell, Comparison, ExitWait, Fields, Neighbourhood, NearEvent, NearSpan, Recording, Report, Rows, Table, WorstExit } from "./types";

const kLanes = ["guest", "kernel", "QEMU", "others"];
const kKinds: [string, number, string][] = [["guest", 0, "guest"], ["kernel", 1, "kernel"], ["user", 2, "QEMU"], ["preempted", 1, "preempted"], ["blocked", 1, "blocked"], ["halted", 1, "halted"], ["handler", 2, ""]];
const kHandler = 6;
const kBlocked = 3; // of Part
const kOthers = 3; // of the lanes
const kNamed = ["vcpu", "reason", "detail", "device", "function", "preempted_by"]; // given as numbers of texts

// Returns a row as an object; the tables inside it become lists of such objects.
function fieldsOf(row: unknown, columns: string[] | undefined): Fields {
  const fields: Fields = columns ? Object.fromEntries((row as unknown[]).map((value, i) => [columns[i], value])) : { ...(row as Fields) };
  for (const [key, value] of Object.entries(fields)) if (Array.isArray(value?.rows)) fields[key] = value.rows.map((one: unknown) => fieldsOf(one, value.columns));
  return fields;
}

// Returns a table with its rows as objects; a table whose columns are described keeps its lists.
function rowsOf(table: Table | undefined): Rows {
  const { columns, rows = [], left_out = 0 } = table ?? {};
  const described = typeof columns?.[0] === "object";
  return { ...table, left_out, rows: described ? rows : rows.map((row) => fieldsOf(row, columns)) } as unknown as Rows;
}

// Reads a flat list of numbers to its end. `one` makes an element of the numbers that `next` returns.
export function readAll<T>(flat: number[], one: (next: () => number) => T): T[] {
  const all: T[] = [];
  for (let i = 0; i < flat.length; ) all.push(one(() => flat[i++] ?? 0));
  return all;
}

function spansOf(flat: number[], from: number, texts: string[]): NearSpan[] {
  let begin = from;
  return readAll(flat, (next) => {
    const number = next();
    const [kind, lane, text] = kKinds[number] ?? ["kernel", 1, "?"];
    begin += next();
    return [lane, begin, begin + next(), kind, number === kHandler ? (texts[next()] ?? "") : text];
  });
}

function eventsOf(flat: number[], from: number, texts: string[]): NearEvent[] {
  let at = from;
  return readAll(flat, (next) => [next(), (at += next()), texts[next()] ?? "", texts[next()] ?? ""]);
}

// Returns the cells of a combination.
function cellsOf(flat: number[], combo: number, bins: number): Cell[] {
  let time = 0;
  return readAll(flat, (next) => {
    const place = next();
    const bin = Math.floor(place / 32);
    time = Math.min(time + Math.floor(bin / kLatencyBins), bins - 1);
    const [count, total_ns] = [place & 1 ? next() : 1, next()];
    const part = (flag: number): number => (place & flag ? next() : 0);
    const [user_ns, preempted_ns, blocked_ns, halted_ns] = [part(2), part(4), part(8), part(16)];
    const kernel_ns = total_ns - user_ns - preempted_ns - blocked_ns - halted_ns;
    return { time, combo, latency: bin % kLatencyBins, count, total_ns, kernel_ns, user_ns, preempted_ns, blocked_ns, halted_ns };
  });
}

function waitsOf(table: Rows): Rows {
  const timeOf = (flat: number[], bin = 0): [number, number][] => readAll(flat, (next) => [(bin += next()), next()]);
  return { total_ns: null, ...table, rows: table.rows.map((row) => ({ ...row, time: timeOf(row.time) })) };
}

function worstOf({ rows }: Rows, texts: string[]): WorstExit[] {
  const waitOf = (next: () => number): ExitWait => {
    const [part, who, begin] = [next(), next(), next()];
    return [part === kBlocked ? "blocked" : "preempted", texts[who] ?? "", begin, begin + next()];
  };
  return rows.map((exit) => ({ ...exit, ...Object.fromEntries(kNamed.map((key) => [key, texts[exit[key]]])),
    waits: readAll(exit.waits, waitOf) }) as WorstExit);
}

// Adds the threads that ran instead of an exit's thread, and those that woke it, to the lane of other threads.
function withCulprits(near: Neighbourhood, exit: WorstExit | undefined): Neighbourhood {
  const culprits = (exit?.waits ?? []).map(([part, who, begin, end]): NearSpan => [kOthers, begin, end, "other", part === "blocked" ? `woken by ${who}` : who]);
  return { ...near, spans: [...near.spans, ...culprits] };
}

export function unpack({ head, tables: written, notes }: Report): Recording {
  const { combos, cells, counters = {}, ...others } = written;
  const tables = Object.fromEntries(Object.entries(others).map(([key, table]) => [key, rowsOf(table)]));
  const of = (key: string): Rows => tables[key] ?? rowsOf(undefined);
  const texts = (of("worst").texts ?? []) as string[];
  const worst = worstOf(of("worst"), texts);
  return {
    ...head, notes, tables, worst, counters,
    command: head.words,
    vcpus: of("vcpus").rows,
    waits: { preempted: waitsOf(of("preempted")), blocked: waitsOf(of("blocked")) },
    combos: combos?.rows ?? [],
    cells: ((cells?.rows ?? []) as number[][]).flatMap((flat, combo) => cellsOf(flat, combo, head.time.bins)),
    values: combos?.values,
    sets: Object.entries(tables).filter(([key]) => key.startsWith("by_")).map(([, set]) => set),
    neighbourhoods: of("neighbourhoods").rows.map(({ from, length, left_out, spans, events }, i): Neighbourhood => withCulprits({
      from, to: from + length, left_out, lanes: kLanes, spans: spansOf(spans, from, texts), events: eventsOf(events, from, texts),
    }, worst.find((exit) => exit.neighbourhood === i))),
  } as unknown as Recording;
}

export function unpackComparison({ head, tables, notes: warnings }: Report): Comparison {
  return { ...head, ...rowsOf(tables.changes), before: rowsOf(tables.before).rows, after: rowsOf(tables.after).rows, warnings } as unknown as Comparison;
}

// Unpacks the data of trapline timeline --format html.
export function unpackTimeline({ texts, duration_ns, lanes, left_out, spans, events }: Fields): Neighbourhood {
  return {
    from: 0, to: Math.max(1, duration_ns), lanes, left_out,
    spans: spans.map(([lane, begin, length, kind, of]: number[]) => [lane, begin, begin! + length!, (kKinds[kind!] ?? kKinds[1]!)[0], texts[of!] ?? ""]),
    events: events.map(([lane, at, of, whose]: number[]) => [lane, at, texts[of!] ?? "", texts[whose!] ?? ""]),
  };
}
