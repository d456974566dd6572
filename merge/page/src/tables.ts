// Sections that are tables of the whole recording, whatever is chosen: stalls, the guest's intervals, requests, vhost
// workers, interrupts, halts, what the kernel did, and tables for which the page has no view of its own.
import { type Child, clip, dim, h, name, nothing, s, section, swatch } from "./dom";
import { kNoExits } from "./known";
import { describedTable, partsBar, rowsTable, type Column } from "./rows";
import { duration, exact, grouped, percent, quoted } from "./text";
import type { Fields, Recording, Rows } from "./types";

const kWidth = 240; // px of a distribution
const kCauses = 3; // of a stall, and of an interval
const kCulprits = 20;
const kSpanParts = ["guest", "kernel", "user", "preempted", "blocked", "halted", "not_recorded"];

const sumOf = (rows: Fields[], of: (row: Fields) => number): number => rows.reduce((n, row) => n + of(row), 0);
const most = (rows: Fields[], key: string): Fields | undefined => [...rows].sort((a, b) => b[key] - a[key])[0];

// The longest times in which a vCPU, or a whole VM, made no progress, and why: trapline stalls.
function stalls({ rows, count, total_ns, min_ns }: Rows): HTMLElement {
  const longest = rows[0];
  if (!longest) return nothing(section("stalls", []), `No vCPU was kept from the guest for ${duration(min_ns)} or more`);
  const causes = (stall: Fields): Child[] => (stall.causes as Fields[]).slice(0, kCauses).filter((cause, i) => i === 0 || cause.ns * 20 >= stall.ns)
    .flatMap(({ cause, culprit, phase, ns }, i) => [i && "; ", cause, culprit && (cause === "preempted" ? " by " : ": "), culprit && name(clip(culprit, 60)), phase ? ` (${phase}) ` : " ", percent(ns / Math.max(1, stall.ns))]);
  const single = rows.every(({ exits, open }) => exits === 1 && !open); // the longest exits have them all
  return section("stalls", [name(longest.name), ` made no progress for ${duration(longest.ns)}: `, clip(longest.causes[0]?.text ?? "", 100), ` (${percent((longest.causes[0]?.ns ?? 0) / Math.max(1, longest.ns))} of it)`],
    h("p", {}, longest.finding, ...longest.noticed.map(({ what, after_ns, source }: Fields) => ` A guest may notice: ${what} after ${duration(after_ns)} (${source}).`)),
    dim(`A stall is an exit, or several with hardly any guest time in between. ${grouped(count)} of them, of ${duration(min_ns)} or longer, took ${duration(total_ns)} together${single ? "; each of the longest is one exit, which is among the longest exits above" : `; the ${rows.length} longest are here`}. trapline stalls prints all, and with --min shorter ones too.`),
    !single && rowsTable("Stalls", [["Began", "moment", "start"], ["Lasted", "time", "ns"], ["vCPU", "node", (stall) => [name(stall.name), stall.open && " (lasts at the end)"]],
      ["Exits", "count", "exits"], ["Longest exit", "name", "exit"], ["Went to", "node", (stall) => h("td", { class: "wrap" }, ...causes(stall)), "% of the stall"]], rows));
}

// Intervals that the guest recorded, and what the host did in each of them: --guest-span.
function guestSpans(data: Recording, spans: Rows): HTMLElement {
  const all = Math.max(1, spans.total_ns);
  const culprits = [...(data.tables.span_culprits?.rows ?? [])].sort((a, b) => b.ns - a.ns);
  const worst = data.tables.span_worst?.rows ?? [];
  const { counters } = spans;
  const counts = ([["restarted", "began again before they ended"], ["end_only", "ends had no begin"], ["open", "never ended"], ["unplaced", "are left out, for their vCPU is not known, or too many overlap"]])
    .filter(([key]) => counters[key!] > 0).map(([key, text]) => `${grouped(counters[key!])} ${text}`);
  // The largest cause on the host, over all intervals: the kernel, QEMU, or a culprit of waits.
  const causes = [{ text: "the kernel", ns: spans.kernel_ns }, { text: "QEMU", ns: spans.user_ns }, ...culprits.map(({ part, culprit, ns }) => ({ text: `${part}, ${culprit}`, ns }))];
  const largest = most(causes, "ns")!;
  const host = largest.ns > 0 ? `; the largest cause on the host: ${clip(largest.text, 60)}, ${percent(largest.ns / all)}` : "; the host took nothing of them, as far as was recorded";
  // The parts of an interval have the names that its tree gives them, and its culprits stand below them.
  const tree = ({ tree: [top] }: Fields): Fields => top;
  const parts = (row: Fields): Fields => Object.fromEntries((tree(row).children ?? []).map((child: Fields) => [`${child.text.replace(" ", "_")}_ns`, child.ns]));
  const waited = (row: Fields): Child[] => {
    const list = (tree(row).children ?? []).flatMap((part: Fields) => part.children ?? []).sort((a: Fields, b: Fields) => b.ns - a.ns);
    const shown = list.slice(0, kCauses).flatMap(({ text, ns }: Fields, i: number) => [i && ", ", name(clip(text, 50)), ` ${duration(ns)}`]);
    return list.length > kCauses ? [...shown, `, ${list.length - kCauses} more`] : list.length ? shown : ["–"];
  };
  const words = data.command.some((word) => ["--from", "--to", "--phases", "--phase"].includes(word)) ? null
    : ["trapline", "explain", ...data.command.slice(1), "--guest-span", spans.guest_span, "--worst", "10"];
  return section("guest-spans", [`${grouped(spans.count)} intervals of `, name(spans.guest_span), `: half took at most ${duration(spans.p50_ns)}, the longest ${duration(spans.max_ns)}${host}`],
    ...spans.clocks.map((clock: string) => dim("Clock of ", name(clock))),
    rowsTable("Guest's intervals", [["Interval", "name", (row) => row.key || "all"], ["Count", "count", "count"], ["Total", "time", "total_ns"], ["p50", "time", "p50_ns"], ["p99", "time", "p99_ns"],
      ["Max", "time", "max_ns"], ["vCPU's time", "node", (row) => partsBar(row, kSpanParts)]], spans.rows, spans.left_out, "trapline report --by guest-span"),
    h("p", {}, ...kSpanParts.filter((part) => spans[`${part}_ns`] > 0).flatMap((part) => [swatch(part), `${part.replace("_", " ")} ${percent(spans[`${part}_ns`] / all)}\u2003`])),
    culprits.length > 0 && h("h3", {}, "Who kept the vCPUs waiting in them"),
    culprits.length > 0 && rowsTable("Who kept the vCPUs waiting in the guest's intervals", [["Culprit", "name", "culprit"], ["while it was", "node", ({ part }) => [swatch(part), part]], ["Time", "time", "ns"],
      ["Share", "share", ({ ns }) => ns / all, "of the intervals"], ["Times", "count", "count"]], culprits.slice(0, kCulprits)),
    h("h3", {}, worst.length === 1 ? "The longest" : `The ${worst.length} longest`),
    rowsTable("The longest of the guest's intervals", [["vCPU, interval", "node", (row) => [name(tree(row).text), h("small", { title: [row.advice, row.source].filter(Boolean).join(" ") }, row.sentence)]],
      ["Began", "moment", "start"], ["Took", "time", (row) => tree(row).ns], ["vCPU's time", "node", (row) => partsBar(parts(row), kSpanParts)], ["Waited", "node", (row) => h("td", { class: "wrap" }, ...waited(row))]], worst),
    counts.length > 0 && dim(`Of the intervals ${counts.join("; ")}.`),
    words && h("p", {}, h("code", {}, words.map(quoted).join(" "))));
}

// Draws a distribution on a logarithmic axis that all rows share: a line from min to max, a bar from p50 to p99.
function range(d: Fields, longest: number): SVGSVGElement | string {
  if (!d.count) return "not known of any";
  const x = (ns: number): number => (Math.log10(Math.max(1000, ns)) - 3) / Math.max(1, Math.log10(Math.max(1e4, longest)) - 3) * (kWidth - 8) + 2;
  const [from, median, late, to] = [x(d.min_ns), x(d.p50_ns), x(d.p99_ns ?? d.max_ns), x(d.max_ns)];
  const told = ["min", "p50", "p90", "p99", "max"].map((key) => `${key} ${exact(d[`${key}_ns`])}`).join(", ");
  return s("svg", { class: "range", width: kWidth, height: 16, role: "img", "aria-label": told }, s("title", {}, told), s("path", { class: "tick", d: `M0 15.5H${kWidth}` }),
    s("rect", { class: "wide", x: from, y: 6, width: Math.max(1, to - from), height: 3 }), s("rect", { class: "mid", x: median, y: 3, width: Math.max(1.5, late - median), height: 9 }),
    s("rect", { class: "median", x: median - 1, y: 1, width: 2.5, height: 13 }));
}

// The stages of a row: the key of a distribution, and its name.
type Stages = [key: string, what: string][];
const linesOf = (rows: Fields[], group: (row: Fields) => string, stages: Stages, all = false): Fields[] =>
  rows.flatMap((row) => stages.map(([key, what]) => ({ group: group(row), what, ...row[key] })).filter(({ count }) => count > 0 || (all && count === 0)));

function stagesTable(label: string, lines: Fields[], group: string, stage: string): HTMLElement {
  const longest = Math.max(1, ...lines.map((line) => line.max_ns ?? 0));
  const time = (key: string, title: string): Column => [title, "time", (line) => (line.count ? line[key] : null)];
  return rowsTable(label, [[group, "name", (line, i) => (i && lines[i - 1]!.group === line.group ? "″" : line.group)], [stage, "node", "what"], ["Count", "count", "count"],
    time("p50_ns", "p50"), time("p90_ns", "p90"), time("p99_ns", "p99"), time("max_ns", "Max"),
    ["Distribution", "node", (line) => range(line, longest), `log axis, ${duration(1000)} to ${duration(longest)}; bar: p50 to p99, or to the maximum`]], lines, 0, "", lines.length);
}

const kBlock: Stages = [["start_to_bio", "2a. start → bio"], ["bio_to_issue", "2b. bio → disk, in the block layer"], ["issue_to_complete", "2c. on the disk"], ["complete_to_end", "2d. disk → end"]];

// Returns the disk's share of the requests whose way through the block layer is known.
function diskShare(paths: Fields[]): string {
  const blocks = paths.flatMap(({ block }) => (block ? [block] : []));
  const all = sumOf(blocks, (block) => sumOf(kBlock.map(([key]) => block[key]), (d) => d.total_ns ?? 0));
  return all > 0 && blocks.every((block) => block.start_to_bio.count === block.issue_to_complete.count)
    ? `; the disk had ${percent(sumOf(blocks, (block) => block.issue_to_complete.total_ns) / all)} of the time of those that it served` : "";
}

function requests({ tables, counters }: Recording): HTMLElement {
  const rows = (tables.requests?.rows ?? []).filter((row) => row.count > 0);
  const paths = tables.request_paths?.rows ?? [];
  const first = most(rows, "count");
  if (!first) return nothing(section("requests", []), "No requests were recorded", "trapline record --domain NAME --qemu-events 'memory_region_ops_*,virtio_blk_*,virtio_*notify*'");
  const lines = rows.flatMap((row) => {
    const path = paths.find((one) => one.key === row.key);
    const group = (): string => row.key;
    const whole = { row, ...path };
    return [...linesOf([whole], group, [["notify_to_start", "1. guest's notify → start"]], true),
      ...linesOf([whole], group, [["row", `${path ? "2. " : ""}start → end, ${path?.block ? "in QEMU and the host" : "in QEMU"}`]], true),
      ...linesOf([path?.block ?? {}], group, kBlock),
      ...linesOf([whole], group, [["end_to_injection", "3. end → injection"], ["notify_to_injection", "whole: notify → injection"]], true)];
  });
  const { requests_open = 0, notifies_ambiguous = 0, interrupts_ambiguous = 0, bios_ambiguous = 0 } = counters;
  // A queue's requests and those of its disk are the same ones: the largest number has all of them.
  const [irqfd, posted] = ["irqfd", "posted"].map((key) => Math.max(0, ...paths.map((path) => path[key] ?? 0))) as [number, number];
  return section("requests", [`QEMU served ${grouped(first.count)} requests from ${first.key.replace("..", " to ")}; half took at most ${duration(first.p50_ns)}${diskShare(paths)}`],
    stagesTable("Requests", lines, "request", "stage"),
    dim(`A stage counts the requests of which it is known. ${grouped(requests_open)} requests never ended; ${grouped(notifies_ambiguous)} notifies and ${grouped(interrupts_ambiguous)} interrupts had more than one candidate: the stages that begin or end with them are not counted.${bios_ambiguous > 0 ? ` ${grouped(bios_ambiguous)} of the host's bios may belong to more than one request, and are assigned to none.` : ""}`),
    irqfd > 0 && dim(`${grouped(irqfd)} of a queue's interrupts came through an eventfd (irqfd).`),
    posted > 0 && dim(`${grouped(posted)} of a queue's interrupts were posted: their injection is the post.`));
}

// Returns null if there are none, as on most machines.
function vhost(rows: Fields[]): HTMLElement | null {
  const busiest = most(rows, "turns");
  if (!busiest) return null;
  const lines = linesOf(rows, (row) => `${row.worker} (tid ${row.tid})`,
    [["woken_to_run", "woken → runs"], ["ran", "ran, each turn"], ["notify_to_interrupt", "guest's notify → its interrupt raised"], ["raise_to_injection", "raised → injection"]], true);
  return section("vhost", [`vhost workers took ${grouped(sumOf(rows, (row) => row.turns))} turns; `, name(busiest.worker), `, the busiest, ran within ${duration(busiest.woken_to_run.p50_ns)} after half of its wake-ups`],
    stagesTable("vhost workers", lines, "worker", "stage"),
    ...rows.map((row) => dim(name(row.worker), `: ${grouped(row.notified)} of ${grouped(row.turns)} turns began with a guest's notify; ${grouped(row.interrupts)} interrupts; ${duration(row.preempted_ns)} preempted.`)));
}

const kInterrupts = 12;

function interrupts(irqs: Rows | undefined): HTMLElement {
  const rows = [...(irqs?.rows ?? [])].sort((a, b) => b.injected - a.injected);
  const busiest = rows[0];
  if (!busiest) return nothing(section("interrupts", []), "The guest's interrupts were not recorded. Each recording by trapline record has them; so has", "trace-cmd record -e kvm");
  const lines = linesOf(rows.slice(0, kInterrupts), (row) => `${row.vector} ${row.pin}`, [["raise_to_inject", "raised → injected"], ["raise_to_entry", "raised → in guest"], ["inject_to_eoi", "injected → EOI"]]);
  const again = irqs!.coalesced;
  return section("interrupts", [`${grouped(sumOf(rows, (row) => row.injected))} interrupts were injected; the most frequent, ${busiest.vector} (${busiest.pin}), half of the time within ${duration(busiest.raise_to_inject.p50_ns)}`],
    stagesTable("Interrupts", lines, "vector and pin", "stage"),
    rows.length > kInterrupts && dim(`${rows.length - kInterrupts} more ways of interrupts are in trapline report --irq.`),
    dim(`${grouped(again)} interrupt${again === 1 ? " was" : "s were"} raised again while ${again === 1 ? "it was" : "they were"} pending.`));
}

function halts(rows: Fields[]): HTMLElement {
  const won = sumOf(rows, (row) => row.polls_won.count);
  const all = won + sumOf(rows, (row) => row.slept.count);
  if (!all) return nothing(section("halts", []), rows.some((row) => row.slept.count !== null) ? "No halt ended in what this page shows" : "How halts ended was not recorded. Each recording by trapline record has it; so has", "trace-cmd record -e kvm");
  const lines = linesOf(rows, (row) => `VM ${row.vm} vCPU ${row.vcpu ?? "?"}`, [["polls_won", "polls that won"], ["slept", "slept"], ["wake_to_run", "woken → running"]]);
  return section("halts", [`Polling saved ${percent(won / all)} of ${grouped(all)} halts a sleep`], stagesTable("Halts", lines, "vCPU", "halts"));
}

// The kernel's time in exits by what its events tell: report --kernel.
function kernel(table: Rows): HTMLElement {
  const { total_ns, whose, rows } = table;
  const first = rows[0];
  if (!first) return nothing(section("kernel-table", []), total_ns === null ? `The kernel's time in exits was ${kNoExits}` : "The kernel had no time in exits");
  return section("kernel-table", [name(String(first[0])), ` took ${percent(Number(first[1]) / Math.max(1, total_ns))} of ${whose} ${duration(total_ns)} in exits`],
    describedTable("The kernel's time in exits", table, "trapline report --kernel"));
}

// The tables for which the page has no view of its own: their names in the table of contents, and their headings.
export const kTables: Record<string, [name: string, heading: string]> = { host_cpu: ["Threads of VMs", "Host CPU time by thread"], faults: ["Faults by cause", "Page faults by cause"],
  fault_regions: ["Faults by address", "Page faults by guest memory, in parts of 2 MiB"], fault_vcpus: ["Faults by vCPU", "Page faults by vCPU"] };

export function tables(data: Recording): HTMLElement[] {
  const of = (key: string): Fields[] => data.tables[key]?.rows ?? [];
  const { stalls: stalled, spans, irqs, kernel: inside } = data.tables;
  const others = Object.entries(data.tables).filter(([key, { columns }]) => key !== "kernel" && typeof columns?.[0] === "object");
  return [stalled && stalls(stalled), spans && guestSpans(data, spans), requests(data), vhost(of("vhost")), interrupts(irqs), halts(of("halts")), inside && kernel(inside),
    ...others.map(([key, table]) => section(`table-${key}`, [kTables[key]![1]], describedTable(kTables[key]![1], table)))].filter((one): one is HTMLElement => !!one);
}
