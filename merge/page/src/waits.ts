// Shows who kept the vCPUs waiting: preempted and blocked time by culprit, and when.
import type { Choice } from "./choice";
import { cell, clip, column, first, h, name, number, numbers, replace, s, section, table, time } from "./dom";
import { theVcpus } from "./known";
import type { Model } from "./model";
import { duration, grouped, moment, percent } from "./text";
import type { WaitRow, WaitTable } from "./types";

const kStrip = 180;
const kHeight = 18;
const kShown = 10;
const kParts = [["preempted", "Preempted: this ran instead, or kept it from running"], ["blocked", "Blocked: it waited for this"]] as const;

export class Waits {
  private readonly title = h("h2");
  private readonly tables = h("div");
  private readonly more = h("button", { type: "button", class: "noprint", click: () => { this.all = !this.all; this.draw(); } });
  readonly element = section("waits", this.title, this.tables, this.more);
  private all = false;
  private choice: Choice | null = null;

  constructor(private readonly model: Model) {}

  render(choice: Choice): void {
    if (this.choice && this.choice.time?.join() === choice.time?.join()) return;
    this.choice = choice;
    this.draw();
  }

  private within(row: WaitRow): number {
    const time = this.choice?.time;
    if (!time) return row.ns;
    return row.time.reduce((sum, [bin, ns]) => (bin >= time[0] && bin < time[1] ? sum + ns : sum), 0);
  }

  private draw(): void {
    const { waits } = this.model.data;
    const of = (table: WaitTable): [WaitRow, number][] =>
      table.rows.map((row): [WaitRow, number] => [row, this.within(row)]).filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]);
    const rows = kParts.map(([part]) => of(waits[part]));
    const sums = kParts.map(([part], i) => (this.choice?.time ? rows[i]!.reduce((n, [, ns]) => n + ns, 0) : (waits[part].total_ns ?? 0)));
    // A culprit that is known; blocked time has the halts in it, in which a vCPU waits for nobody.
    const known = ([row]: [WaitRow, number]): boolean => !/^(idle$|unknown)/.test(row.culprit);
    const found = rows.map((list, i) => ({ i, row: list.find(known) ?? list[0] })).filter((one) => one.row);
    const most = found.find((one) => known(one.row!)) ?? found[0];
    const when = this.choice?.time ? "in the chosen interval" : "";
    if (!most?.row) {
      const what = waits.preempted.total_ns === null ? "Whether a vCPU was preempted or blocked inside its exits was not recorded" : "No vCPU was preempted or blocked inside its exits";
      replace(this.title, `${what} ${when}`.trimEnd());
      replace(this.tables, h("p", { class: "empty" }, "As far as was recorded: this view needs sched:sched_switch and sched:sched_waking (trapline record --sched)."));
      this.more.hidden = true;
      return;
    }
    replace(this.title, name(clip(most.row[0].culprit, 60)), ` kept ${theVcpus(this.model.data)} waiting longest: ${duration(most.row[1])}, ${percent(most.row[1] / Math.max(1, sums[most.i] ?? 0))} of the time that ${this.model.data.vcpus.length === 1 ? "it was" : "they were"} ${kParts[most.i]![0]} ${when}`.trimEnd());
    replace(this.tables, ...kParts.flatMap(([part, head], i) => (rows[i]!.length ? [this.table(part, head, rows[i]!, sums[i] ?? 0, waits[part])] : [])));
    const longest = Math.max(...rows.map((list) => list.length));
    this.more.hidden = longest <= kShown;
    this.more.textContent = this.all ? `Show the first ${kShown} only` : `Show all ${longest} rows`;
  }

  private table(part: "preempted" | "blocked", head: string, rows: [WaitRow, number][], sum: number, { rows_left_out }: WaitTable): HTMLElement {
    const shown = this.all ? rows : rows.slice(0, kShown);
    const chosen = this.choice?.time;
    const left = rows.slice(shown.length).reduce((n, [, ns]) => n + ns, 0);
    const heads = [h("th", { scope: "col" }, h("span", { class: `swatch b-${part}`, "aria-hidden": "true" }), head), numbers("Time"),
      numbers("Share", `% of ${part}`), numbers("Times"), numbers("Longest"), column("When", `0 to ${duration(this.model.data.duration_ns)}`)];
    return h("div", {}, table(`${head}, table`, heads, shown.map(([row, ns]) => h("tr", { "data-culprit": row.culprit },
      first(name(row.culprit), row.vm !== null && !row.culprit.includes("VM ") && h("small", {}, "VM ", name(row.vm))),
      time(ns), number(percent(ns / Math.max(1, sum)).replace("%", "")),
      number(chosen ? "–" : grouped(row.count)), chosen ? number("–") : time(row.max_ns), cell(this.strip(part, row))))),
      h("p", { class: "dim" }, [left > 0 ? `${duration(left)} in ${rows.length - shown.length} more rows` : "",
        rows_left_out > 0 ? `${grouped(rows_left_out)} more culprits are not on this page: trapline report --waits prints them` : "",
        chosen ? "numbers and longest pieces are known for the whole recording only" : ""].filter(Boolean).join("; ")));
  }

  private strip(part: string, row: WaitRow): SVGSVGElement {
    const { data } = this.model;
    const svg = s("svg", { class: "when", width: kStrip, height: kHeight, role: "img", "aria-label": `most at ${moment(this.model.edge([...row.time].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0), 3)}` });
    const most = Math.max(1, ...row.time.map(([, ns]) => ns));
    const x = (bin: number): number => (this.model.edge(bin) / Math.max(1, data.duration_ns)) * kStrip;
    let path = "";
    for (const [bin, ns] of row.time) {
      const size = Math.max(1.5, (ns / most) * (kHeight - 2));
      path += `M${x(bin).toFixed(1)} ${kHeight}v-${size.toFixed(1)}H${Math.max(x(bin) + 1, x(bin + 1)).toFixed(1)}v${size.toFixed(1)}z`;
    }
    const time = this.choice?.time;
    svg.append(s("rect", { class: "ground", width: kStrip, height: kHeight }), s("path", { class: `p-${part}`, d: path }));
    if (time) svg.append(s("path", { class: "edge", d: `M${x(time[0])} 0V${kHeight}M${x(time[1])} 0V${kHeight}` }));
    return svg;
  }
}
