// Shows who kept the vCPUs waiting: preempted and blocked time by culprit, and when.
import type { Choice } from "./choice";
import { clip, entitle, h, name, nothing, replace, s, section, swatch } from "./dom";
import { theVcpus } from "./known";
import type { Model } from "./model";
import { barsPath, drawRows, emptyTable } from "./rows";
import { duration, grouped, moment, percent } from "./text";
import type { Fields, Rows } from "./types";

const kStrip = 180;
const kHeight = 18;
type Time = [bin: number, ns: number][];
const kParts = [["preempted", "Preempted: what ran instead, or the CPU quota that stopped it"], ["blocked", "Blocked: what it waited for"]] as const;

export class Waits {
  private readonly tables = h("div");
  readonly element = section("waits", [], this.tables);
  private choice: Choice | null = null;

  constructor(private readonly model: Model) {}

  render(choice: Choice): void {
    if (this.choice && this.choice.time?.join() === choice.time?.join() && this.choice.view?.join() === choice.view?.join()) return;
    this.choice = choice;
    this.draw();
  }

  private within(row: Fields): number {
    const time = this.choice?.time;
    if (!time) return row.ns;
    return (row.time as Time).reduce((sum, [bin, ns]) => (bin >= time[0] && bin < time[1] ? sum + ns : sum), 0);
  }

  private draw(): void {
    const { waits } = this.model.data;
    const of = (table: Rows): [Fields, number][] =>
      table.rows.map((row): [Fields, number] => [row, this.within(row)]).filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]);
    const rows = kParts.map(([part]) => of(waits[part]));
    const sums = kParts.map(([part], i) => (this.choice?.time ? rows[i]!.reduce((n, [, ns]) => n + ns, 0) : (waits[part].total_ns ?? 0)));
    // Returns whether the culprit is known: "idle" and "unknown" name nobody.
    const known = ([row]: [Fields, number]): boolean => !/^(idle$|unknown)/.test(row.culprit);
    const found = rows.map((list, i) => ({ i, row: list.find(known) ?? list[0] })).filter((one) => one.row);
    const most = found.find((one) => known(one.row!)) ?? found[0];
    const when = this.choice?.time ? "in the chosen interval" : "";
    if (!most?.row) {
      if (waits.preempted.total_ns === null) nothing(this.element, "Whether a vCPU was preempted or blocked inside its exits was not recorded", "trapline record --sched");
      else nothing(this.element, `No vCPU was preempted or blocked inside its exits ${when}`.trimEnd());
      return;
    }
    entitle(this.element, name(clip(most.row[0].culprit, 60)),
      ` kept ${/vCPU/.test(most.row[0].culprit) ? "other vCPUs" : theVcpus(this.model.data)} waiting for ${duration(most.row[1])}, ${percent(most.row[1] / Math.max(1, sums[most.i] ?? 0))} of all ${most.i === 0 ? "waits for a CPU" : "blocked time"} ${when}`.trimEnd());
    replace(this.tables, ...kParts.flatMap(([part, head], i) => (rows[i]!.length ? [this.table(part, head, rows[i]!, sums[i] ?? 0, waits[part])] : [])));
  }

  private table(part: "preempted" | "blocked", head: string, rows: [Fields, number][], sum: number, { left_out }: Rows): HTMLElement {
    const chosen = this.choice?.time;
    const table = emptyTable(head);
    table.classList.add("tall");
    const { from, to } = this.model.scaleOf(this.choice!);
    drawRows(table, [[h("th", { scope: "col" }, swatch(part), head), "node", ([row]) => [name(row.culprit), row.culprit === "idle" && h("small", {}, "the CPU had to wake up"), row.vm !== null && !row.culprit.includes("VM ") && h("small", {}, "VM ", name(row.vm))]],
      ["Time", "time", ([, ns]) => ns], ["Share", "share", ([, ns]) => ns / Math.max(1, sum), `of the time ${part}`], ["Count", "count", ([row]) => (chosen ? null : row.count)],
      ["Longest", "time", ([row]) => (chosen ? null : row.max_ns)], ["When", "node", ([row]) => this.strip(part, row), `${moment(from, 3)} to ${moment(to, 3)}`]], rows);
    return h("div", {}, table,
      h("p", { class: "dim" }, [left_out > 0 ? `${grouped(left_out)} more culprits are not on this page: trapline report --waits prints them` : "",
        chosen ? "numbers and longest pieces are known for the whole recording only" : ""].filter(Boolean).join("; ")));
  }

  private strip(part: string, row: Fields): SVGSVGElement {
    const { from, to } = this.model.scaleOf(this.choice!);
    const list = row.time as Time;
    const most = Math.max(1, ...list.map(([, ns]) => ns));
    const svg = s("svg", { class: "when", width: kStrip, height: kHeight, role: "img", "aria-label": `most at ${moment(this.model.edge(list.find(([, ns]) => ns === most)?.[0] ?? 0), 3)}` });
    const x = (bin: number): number => ((this.model.edge(bin) - from) / (to - from)) * kStrip;
    const time = this.choice?.time;
    svg.append(s("rect", { class: "ground", width: kStrip, height: kHeight }), 
      s("path", { class: `p-${part}`, d: barsPath(list.map(([bin, ns]) => [x(bin), x(bin + 1), ns / most]), kHeight) }));
    if (time) svg.append(s("path", { class: "edge", d: `M${x(time[0])} 0V${kHeight}M${x(time[1])} 0V${kHeight}` }));
    return svg;
  }
}
