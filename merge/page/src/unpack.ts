// From the page's data as it is written, short, to what the views read: docs/formats/page.md.
import { kDimensions, type ExitWait, type GuestStack, type KernelStack, type Neighbourhood, type NearEvent, type NearSpan, type PackedRecording, type PackedRows, type Recording, type Row, type TimelineData, type WaitTable, type WorstExit } from "./types";

const kLanes = ["guest", "kernel", "QEMU", "others"];
const kKinds: [string, number, string][] = [["guest", 0, "guest"], ["kernel", 1, "kernel"], ["user", 2, "QEMU"], ["preempted", 1, "preempted"], ["blocked", 1, "blocked"], ["halted", 1, "halted"], ["handler", 2, ""]];
const kHandler = 6;
const kBlocked = 3; // of Part
const kOthers = 3; // of the lanes

function objects(packed: PackedRows): Record<string, unknown>[] {
  return packed.rows.map((row) => Object.fromEntries(packed.columns.map((column, i) => [column, row[i]])));
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

function waitsOf(table: PackedRecording["waits"]["blocked"]): WaitTable {
  return { ...table, rows: table.rows.map((row) => {
    const time: [number, number][] = [];
    for (let i = 0, bin = 0; i + 1 < row.time.length; i += 2) {
      bin += row.time[i] ?? 0;
      time.push([bin, row.time[i + 1] ?? 0]);
    }
    return { ...row, time };
  }) };
}

function worstOf(packed: PackedRecording): WorstExit[] {
  const { texts } = packed;
  const named = new Set(["vcpu", "reason", "detail", "device", "function", "preempted_by"]);
  const value = (key: string, given: unknown): unknown => {
    if (named.has(key)) return texts[given as number];
    if (key !== "waits") return given;
    return (given as [number, number, number, number][]).map(([part, who, begin, length]): ExitWait =>
      [part === kBlocked ? "blocked" : "preempted", texts[who] ?? "", begin, begin + length]);
  };
  return objects(packed.worst).map((exit) => Object.fromEntries(Object.entries(exit).map(([key, given]) => [key, value(key, given)])) as unknown as WorstExit);
}

// Who ran instead of an exit's thread, and who woke it, are the lane of the others.
function withCulprits(near: Neighbourhood, exit: WorstExit | undefined): Neighbourhood {
  const culprits = (exit?.waits ?? []).map(([part, who, begin, end]): NearSpan => [kOthers, begin, end, "other", part === "blocked" ? `woken by ${who}` : who]);
  return { ...near, spans: [...near.spans, ...culprits] };
}

export function unpack(packed: PackedRecording): Recording {
  const { texts } = packed;
  const worst = worstOf(packed);
  const { kernel_stacks, ...rest } = packed;
  return {
    ...rest,
    waits: { preempted: waitsOf(packed.waits.preempted), blocked: waitsOf(packed.waits.blocked) },
    cells: unpackCells(packed.cells, 4 * 64),
    values: Object.fromEntries(kDimensions.map((d) => [d, packed.values[d] ?? []])) as Recording["values"],
    sets: packed.sets.map((set) => ({ by: set.by, rows_left_out: set.rows_left_out, rows: objects(set).map((row) => ({ ...row, halt: row["halt"] === 1 }) as unknown as Row) })),
    worst,
    ...(kernel_stacks ? { kernel_stacks: objects(kernel_stacks) as unknown as KernelStack[] } : {}),
    guest_stacks: objects(packed.guest_stacks ?? { columns: [], rows: [] }) as unknown as GuestStack[],
    neighbourhoods: packed.neighbourhoods.map(([from, length, left_out, spans, events], i): Neighbourhood => withCulprits({
      from, to: from + length, left_out, lanes: kLanes, spans: spansOf(spans, from, texts), events: eventsOf(events, from, texts),
    }, worst.find((exit) => exit.neighbourhood === i))),
  };
}

export function unpackTimeline(data: TimelineData): Neighbourhood {
  const text = (number: number): string => data.texts[number] ?? "";
  return {
    from: 0, to: Math.max(1, data.duration_ns), lanes: data.lanes, left_out: data.left_out,
    spans: data.spans.map(([lane, begin, length, kind, of]): NearSpan => [lane, begin, begin + length, (kKinds[kind] ?? kKinds[1]!)[0], text(of)]),
    events: data.events.map(([lane, at, of, whose]): NearEvent => [lane, at, text(of), text(whose)]),
  };
}
