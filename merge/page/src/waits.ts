// Shows who kept the vCPUs waiting: preempted and blocked time by culprit, and when.
import type { Choice } from "./choice";
import { clip, dim, entitle, h, name, nothing, replace, s, section, swatch } from "./dom";
import type { View } from "./drawing";
import { theVcpus } from "./known";
import type { Model } from "./model";
import { barsPath, drawRows, emptyTable } from "./rows";
import { duration, grouped, moment, percent } from "./text";
import type { Fields, Rows } from "./types";

const kStrip = 180;
const kHeight = 18;
// Culprits that name nobody, and those that kept no vCPU waiting.
const [kNobody, kNoSubject] = [/^(idle$|unknown)/, /^(idle$|idle \(why|unknown|not allowed)/];
type Time = [bin: number, ns: number][];
const kParts = [["preempted", "Preempted: what ran instead, or the CPU quota that stopped it", "waits for a CPU"],
  ["blocked", "Blocked: what it waited for", "blocked time"]] as const;

export function waits(model: Model): View {
  const { waits } = model.data;
  const tables = h("div");
  const element = section("waits", [], tables);
  let drawn = "";

  // Returns the culprits of a part. Of an interval only their time is known.
  function culpritsOf({ rows }: Rows, time: Choice["time"]): Fields[] {
    const within = (row: Fields): Fields => ({ ...row, count: null, max_ns: null,
      ns: (row.time as Time).reduce((sum, [bin, ns]) => (bin >= time![0] && bin < time![1] ? sum + ns : sum), 0) });
    return (time ? rows.map(within) : rows).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns);
  }

  function show(choice: Choice): void {
    const { time } = choice;
    const parts = kParts.map(([part, head, all]) => {
      const rows = culpritsOf(waits[part], time);
      const sum: number = time ? rows.reduce((n, { ns }) => n + ns, 0) : (waits[part].total_ns ?? 0);
      const known = rows.find(({ culprit }) => !kNobody.test(culprit));
      return { part, head, all, rows, sum, known, first: known ?? rows[0] };
    });
    const most = parts.find(({ known }) => known) ?? parts.find(({ first }) => first);
    const when = time ? " in the chosen interval" : "";
    if (!most?.first && waits.preempted.total_ns === null) return void nothing(element, "Whether a vCPU was preempted or blocked inside its exits was not recorded", "trapline record --sched");
    if (!most?.first) return void nothing(element, `No vCPU was preempted or blocked inside its exits${when}`);
    const { culprit, ns } = most.first;
    const kept = /vCPU/.test(culprit) ? "other vCPUs" : theVcpus(model.data);
    // Names both culprits if their times differ by less than a tenth.
    const other = most.rows[most.rows.indexOf(most.first) + 1];
    const ofAll = `${percent(ns / Math.max(1, most.sum))} of all ${most.all}${when}`;
    if (kNoSubject.test(culprit)) entitle(element, `${kept[0]!.toUpperCase()}${kept.slice(1)} waited for ${duration(ns)}, ${ofAll}: `, name(clip(culprit, 60)));
    else if (other && other.ns > 0.9 * ns && !kNoSubject.test(other.culprit))
      entitle(element, name(clip(culprit, 60)), " and ", name(clip(other.culprit, 60)), ` kept ${kept} waiting for ${duration(ns)} and ${duration(other.ns)}, ${percent((ns + other.ns) / Math.max(1, most.sum))} of all ${most.all}${when}`);
    else entitle(element, name(clip(culprit, 60)), ` kept ${kept} waiting for ${duration(ns)}, ${ofAll}`);
    replace(tables, ...parts.map(({ part, head, rows, sum }) => rows.length > 0 && table(part, head, rows, sum, choice)));
  }

  function table(part: "preempted" | "blocked", head: string, rows: Fields[], sum: number, choice: Choice): HTMLElement {
    const table = emptyTable(head, "tall");
    const { from, to } = model.scaleOf(choice);
    const { left_out } = waits[part];
    drawRows(table, [[h("th", { scope: "col" }, swatch(part), head), "node", ({ culprit, vm }) => [name(culprit),
      culprit === "idle" && h("small", {}, "the CPU had to wake up"), vm !== null && !culprit.includes("VM ") && h("small", {}, "VM ", name(vm))]],
      ["Time", "time", "ns"], ["Share", "share", ({ ns }) => ns / Math.max(1, sum), `of the time ${part}`], ["Count", "count", "count"],
      ["Longest", "time", "max_ns"], ["When", "node", (row) => strip(part, row, choice), `${moment(from, 3)} to ${moment(to, 3)}`]], rows);
    return h("div", {}, table,
      dim([left_out > 0 ? `${grouped(left_out)} more culprits are not on this page: trapline report --waits prints them` : "",
        choice.time ? "numbers and longest pieces are known for the whole recording only" : ""].filter(Boolean).join("; ")));
  }

  function strip(part: string, row: Fields, choice: Choice): SVGSVGElement {
    const { from, to } = model.scaleOf(choice);
    const list = row.time as Time;
    const most = Math.max(1, ...list.map(([, ns]) => ns));
    const svg = s("svg", { class: "when", width: kStrip, height: kHeight, role: "img", "aria-label": `most at ${moment(model.edge(list.find(([, ns]) => ns === most)?.[0] ?? 0), 3)}` });
    const x = (bin: number): number => ((model.edge(bin) - from) / (to - from)) * kStrip;
    svg.append(s("rect", { class: "ground", width: kStrip, height: kHeight }),
      s("path", { class: `p-${part}`, d: barsPath(list.map(([bin, ns]) => [x(bin), x(bin + 1), ns / most]), kHeight) }));
    if (choice.time) svg.append(s("path", { class: "edge", d: choice.time.map((bin) => `M${x(bin)} 0V${kHeight}`).join("") }));
    return svg;
  }

  return { element, draw: (choice) => {
    const now = [choice.time, choice.view].join();
    if (now !== drawn) show(choice);
    drawn = now;
  } };
}
