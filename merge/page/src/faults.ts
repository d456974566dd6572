// Page faults: guest memory over time, with the cause as the colour, and what each cause took.
import { cells, Chart, sinceStart, type Cell } from "./chart";
import type { Choice } from "./choice";
import { dim, entitle, h, name, section, swatch, watch, widthOf } from "./dom";
import type { View } from "./drawing";
import type { Model } from "./model";
import { drawRows, emptyTable } from "./rows";
import { counted, duration, grouped, moment, percent, quoted } from "./text";
import type { Fields, Rows } from "./types";
import { readAll } from "./unpack";

const kHeight = 220;
// The colour of each cause, by its number (docs/formats/page.md): similar causes share one.
const kColours = ["halted", "guest", "guest", "user", "kernel", "kernel", "kernel", "blocked", "preempted", "logged", "dim", "dim", "dim"];
const kFills = [...new Set(kColours)];
const kFaintest = 0.25;
const kRoom = 92; // px, for an address

// The faults of a region in one time bin with one cause.
interface Spot {
  slot: number; // place of the region among those of its VM
  bin: number;
  cause: number;
  count: number;
  ns: number;
}
// The faults of one VM. Slots hold the addresses of regions in order; null stands for memory without faults.
interface Memory {
  vm: string;
  slots: (number | null)[];
  spots: Spot[];
  chart: Chart;
}

const size = (bytes: number): string => (bytes >= 2 ** 30 ? `${bytes / 2 ** 30} GiB` : bytes >= 2 ** 20 ? `${bytes / 2 ** 20} MiB` : `${bytes / 2 ** 10} KiB`);
const address = (value: number): string => `0x${value.toString(16)}`;

export function faultMap(model: Model, data: Rows): View {
  const table = emptyTable("Page faults by cause");
  const reading = h("p", { class: "reading" });
  const memories: Memory[] = [];
  const isNew = watch();
  for (const row of data.rows) add(row);
  const element = section("faults", [], ...memories.map(({ vm, chart }) => h("figure", {},
    h("figcaption", {}, h("strong", {}, memories.length > 1 ? name(`VM ${vm}`) : "Guest memory"),
      h("span", { class: "dim" }, ` in regions of ${size(data.region_bytes)}, the lowest address at the bottom; memory without faults is left out`)), chart.element)),
    reading, table, data.unplaced > 0 && dim(`${counted(data.unplaced, "fault")} are not in the picture: no event tells their address, or it has other VMs.`),
    dim("The threads that removed or served pages, and the events that would tell more: ", h("code", {}, ["trapline", ...model.data.command, "--faults"].map(quoted).join(" "))));

  function add(row: Fields): void {
    let memory = memories.find(({ vm }) => vm === row.vm);
    if (!memory) {
      const slots: (number | null)[] = [], spots: Spot[] = [];
      const chart: Chart = new Chart({ height: kHeight, pointed: (time, slot) => read(memory!, time, Math.floor(slot)),
        series: kFills.map((fill) => ({ fill, paths: cells(fill, () => cellsOf(memory!, fill)) })) });
      memories.push((memory = { vm: row.vm, slots, spots, chart }));
    }
    const last = memory.slots.at(-1);
    if (typeof last === "number" && row.address !== last + data.region_bytes) memory.slots.push(null);
    const slot = memory.slots.push(row.address) - 1;
    let bin = 0;
    const spotOf = (next: () => number): Spot => ({ slot, bin: (bin += next()), cause: next(), count: next(), ns: next() });
    memory.spots.push(...readAll(row.cells, spotOf));
  }

  function draw(choice: Choice): void {
    const x = model.scaleOf(choice);
    const anew = isNew(x.from, x.to);
    for (const { chart, slots, spots } of memories) {
      if (anew) {
        chart.element.setAttribute("aria-label", `Page faults by time and address, ${counted(spots.reduce((n, { count }) => n + count, 0), "fault")} from ${address(slots[0]!)} to ${address(slots.at(-1)!)}`);
        chart.draw(widthOf(element), { ...x, label: "begin of the fault; stronger: more faults", say: sinceStart },
          { from: 0, to: slots.length, room: kRoom, say: (slot) => (Number.isInteger(slot) && typeof slots[slot] === "number" ? address(slots[slot]!) : "") }, [model.edges(), ...kFills.map(() => model.edges().fill(1))]);
      }
      chart.select(model.chosen(choice));
    }
    say(choice);
  }

  // Says what the chosen interval's faults took: of the whole recording also those that are not in the picture.
  function say({ time }: Choice): void {
    const rows = (data.causes as number[]).map((cause, i) => {
      const spots = memories.flatMap((memory) => memory.spots.filter(({ bin, cause: of }) => time && of === cause && bin >= time[0] && bin < time[1]));
      return { cause, text: data.cause_texts[i] as string, count: time ? spots.reduce((n, spot) => n + spot.count, 0) : data.counts[i] as number,
        ns: time ? spots.reduce((n, spot) => n + spot.ns, 0) : data.times[i] as number };
    }).filter(({ count }) => count > 0).sort((a, b) => b.ns - a.ns);
    const [count, ns] = [rows.reduce((n, row) => n + row.count, 0), rows.reduce((n, row) => n + row.ns, 0)];
    const most = rows[0];
    entitle(element, most ? `${counted(count, "page fault")} took ${duration(ns)}${time ? ` in the chosen interval${data.unplaced > 0 ? ", of those with a known address" : ""}` : ""}: ${percent(most.ns / Math.max(1, ns))} ${most.text}` : data.unplaced > 0 ? "No page fault with a known address is in the chosen interval" : "The guest had no page faults in the chosen interval");
    reading.textContent = "Point at the picture to read it.";
    drawRows(table, [["Cause", "node", (row) => [swatch(kColours[row.cause] ?? "halted"), row.text]], ["Faults", "count", "count"], ["Time", "time", "ns"],
      ["Share", "share", (row) => row.ns / Math.max(1, ns), "of the faults' time"]], rows);
  }

  // Several causes in one place share its height by their counts.
  function cellsOf({ spots }: Memory, fill: string): Cell[] {
    const list: Cell[] = [];
    const most = spots.reduce((n, spot) => Math.max(n, spot.count), 1);
    for (let i = 0, end = 0; i < spots.length; i = end) {
      const { slot, bin } = spots[i]!;
      for (end = i; end < spots.length && spots[end]!.slot === slot && spots[end]!.bin === bin;) ++end;
      const here = spots.slice(i, end);
      const all = here.reduce((n, { count }) => n + count, 0);
      let below = slot;
      for (const { cause, count } of here) {
        const top = below + count / all;
        if (kColours[cause] === fill) list.push([model.edge(bin), below, model.edge(bin + 1), top, kFaintest + (1 - kFaintest) * (Math.log1p(count) / Math.log1p(most))]);
        below = top;
      }
    }
    return list;
  }

  function read({ slots, spots }: Memory, time: number, slot: number): void {
    const bin = model.binAt(time), at = slots[slot];
    const here = spots.filter((spot) => spot.slot === slot && spot.bin === bin);
    const texts = here.map(({ cause, count, ns }) => `${data.cause_texts[(data.causes as number[]).indexOf(cause)]} ${grouped(count)}, ${duration(ns)}`);
    reading.textContent = `${moment(model.edge(bin), 3)}, ${typeof at === "number" ? `from ${address(at)}` : "between the regions"}: ${texts.join("; ") || "no fault"}`;
  }

  return { element, draw };
}
