// Requests and interrupts as stages, halts and polling: what is not one exit but goes across them. Then
// what the kernel did in them.
import { kernelTable, otherTables } from "./described";
import { cell, column, first, h, name, number, numbers, s, section, table, time } from "./dom";
import { duration, exact, grouped, percent } from "./text";
import type { Distribution, Recording, RequestPath } from "./types";

const kWidth = 240;

// p50 to p90 to p99 to the maximum on a common logarithmic axis.
function range(d: Distribution, most: number): SVGSVGElement {
  const svg = s("svg", { class: "range", width: kWidth, height: 16, role: "img",
    "aria-label": d.count === 0 ? "not known of any" : `p50 ${duration(d.p50_ns)}, p90 ${duration(d.p90_ns)}, p99 ${duration(d.p99_ns)}, max ${duration(d.max_ns)}` });
  if (d.count === 0) return svg;
  const x = (ns: number): number => (Math.log10(Math.max(1000, ns)) - 3) / Math.max(1, Math.log10(Math.max(1e4, most)) - 3) * (kWidth - 8) + 2;
  svg.append(s("path", { class: "tick", d: `M0 15.5H${kWidth}` }),
    s("rect", { class: "wide", x: x(d.min_ns), y: 6, width: Math.max(1, x(d.max_ns) - x(d.min_ns)), height: 3 }),
    s("rect", { class: "mid", x: x(d.p50_ns), y: 3, width: Math.max(1.5, x(d.p99_ns ?? d.max_ns) - x(d.p50_ns)), height: 9 }),
    s("rect", { class: "median", x: x(d.p50_ns) - 1, y: 1, width: 2.5, height: 13 }),
    s("title", {}, `min ${exact(d.min_ns)}, p50 ${exact(d.p50_ns)}, p90 ${exact(d.p90_ns)}, p99 ${exact(d.p99_ns)}, max ${exact(d.max_ns)}`));
  return svg;
}

interface Line {
  group: string;
  what: string;
  d: Distribution;
}

function tableOf(label: string, lines: Line[], group: string, stage: string): HTMLElement {
  const most = Math.max(1, ...lines.map((line) => line.d.max_ns));
  let last = "";
  return table(label, [column(group), column(stage), ...["Count", "p50", "p90", "p99", "Max"].map((text) => numbers(text)),
    column("Distribution", `log axis, ${duration(1000)} to ${duration(most)}; bar: p50 to p99, or to the maximum`)],
    lines.map(({ group, what, d }) => {
      const again = group === last;
      last = group;
      return h("tr", { class: again ? "" : "first" }, first(again ? h("span", { class: "dim" }, "″") : name(group)), cell(what), number(grouped(d.count)),
        ...[d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns].map((ns) => (d.count ? time(ns) : number("–"))),
        cell(d.count ? range(d, most) : h("span", { class: "dim" }, "not known of any")));
    }));
}

type Block = NonNullable<RequestPath["block"]>;

function blockStages(group: string, block: Block): Line[] {
  return [
    { group, what: "2a. start → bio", d: block.start_to_bio },
    { group, what: "2b. bio → disk, in the block layer", d: block.bio_to_issue },
    { group, what: "2c. on the disk", d: block.issue_to_complete },
    { group, what: "2d. disk → end", d: block.complete_to_end },
  ].filter((line) => line.d.count > 0);
}

// Of the requests whose way through the block layer is known.
function diskShare(data: Recording): string {
  const sum = (stages: (keyof Block)[]): number => data.request_paths.reduce((n, { block }) => n + stages.reduce((m, stage) => m + (block?.[stage].total_ns ?? 0), 0), 0);
  const all = sum(["start_to_bio", "bio_to_issue", "issue_to_complete", "complete_to_end"]);
  return all > 0 && data.request_paths.every(({ block }) => !block || block.start_to_bio.count === block.issue_to_complete.count)
    ? `; the disk had ${percent(sum(["issue_to_complete"]) / all)} of the time of those that it served` : "";
}

// A queue's requests and those of its disk are the same ones: the largest number has all of them.
function eventfds(paths: RequestPath[]): HTMLElement[] {
  const irqfd = Math.max(0, ...paths.map((path) => path.irqfd ?? 0));
  const posted = Math.max(0, ...paths.map((path) => path.posted ?? 0));
  return [
    ...(irqfd ? [h("p", { class: "dim" }, `${grouped(irqfd)} of a queue's interrupts came through an eventfd (irqfd).`)] : []),
    ...(posted ? [h("p", { class: "dim" }, `${grouped(posted)} of a queue's interrupts were posted: their injection is the post.`)] : []),
  ];
}

// Only where there are some: most machines have none.
function workers(data: Recording): HTMLElement[] {
  const vhost = data.vhost ?? [];
  const busiest = [...vhost].sort((a, b) => b.turns - a.turns)[0];
  if (!busiest) return [];
  const turns = vhost.reduce((n, row) => n + row.turns, 0);
  const lines = vhost.flatMap((row): Line[] => {
    const group = `${row.worker} (tid ${row.tid})`;
    return [
      { group, what: "woken → runs", d: row.woken_to_run },
      { group, what: "ran, each turn", d: row.ran },
      { group, what: "guest's notify → its interrupt raised", d: row.notify_to_interrupt },
      { group, what: "raised → injection", d: row.raise_to_injection },
    ];
  });
  return [section("vhost", [`vhost workers took ${grouped(turns)} turns; `, name(busiest.worker), `, the busiest, ran within ${duration(busiest.woken_to_run.p50_ns)} after half of its wake-ups`],
    tableOf("vhost workers, table", lines, "worker", "stage"),
    ...vhost.map((row) => h("p", { class: "dim" }, name(row.worker), `: ${grouped(row.notified)} of ${grouped(row.turns)} turns began with a guest's notify; ${grouped(row.interrupts)} interrupts; ${duration(row.preempted_ns)} preempted.`)))];
}

function requests(data: Recording): HTMLElement {
  const rows = data.requests.filter((row) => row.count > 0);
  const most = [...rows].sort((a, b) => b.count - a.count)[0];
  if (!most) return section("requests", ["No requests were recorded"], h("p", { class: "empty" }, "Requests are followed through QEMU's trace events: record with the events virtio_queue_notify, virtio_notify, virtio_blk_handle_read, virtio_blk_handle_write and virtio_blk_req_complete (trapline record --qemu-events 'virtio_blk_*,virtio_*notify*')."));
  const lines = rows.flatMap((row): Line[] => {
    const path = data.request_paths.find((one) => one.key === row.key);
    return [
      ...(path ? [{ group: row.key, what: "1. guest's notify → start", d: path.notify_to_start }] : []),
      { group: row.key, what: `${path ? "2. " : ""}start → end, ${path?.block ? "in QEMU and the host" : "in QEMU"}`, d: row },
      ...(path?.block ? blockStages(row.key, path.block) : []),
      ...(path ? [{ group: row.key, what: "3. end → injection", d: path.end_to_injection },
        { group: row.key, what: "whole: notify → injection", d: path.notify_to_injection }] : []),
    ];
  });
  const { requests_open = 0, notifies_ambiguous = 0, interrupts_ambiguous = 0, bios_ambiguous = 0 } = data.counters;
  return section("requests", [`QEMU served ${grouped(most.count)} requests from ${most.key.replace("..", " to ")}; half took at most ${duration(most.p50_ns)}${diskShare(data)}`],
    tableOf("Requests, table", lines, "request", "stage"),
    h("p", { class: "dim" }, `A stage counts the requests of which it is known. ${grouped(requests_open)} requests never ended; ${grouped(notifies_ambiguous)} notifies and ${grouped(interrupts_ambiguous)} interrupts had more than one candidate: the stages that begin or end with them are not counted.${bios_ambiguous > 0 ? ` ${grouped(bios_ambiguous)} of the host's bios may belong to more than one request, and are assigned to none.` : ""}`),
    ...eventfds(data.request_paths));
}

function interrupts(data: Recording): HTMLElement {
  const rows = [...data.irqs.rows].sort((a, b) => b.injected - a.injected);
  const busiest = rows[0];
  if (!busiest) return section("interrupts", ["No interrupts were recorded"], h("p", { class: "empty" }, "Interrupts are followed through kvm_set_irq, kvm_msi_set_irq, kvm_apic_accept_irq, kvm_inj_virq and kvm_eoi: record with -e kvm."));
  const lines = rows.slice(0, 12).flatMap((row): Line[] => {
    const group = `${row.vector} ${row.pin}`;
    return [
      { group, what: "raised → injected", d: row.raise_to_inject },
      { group, what: "raised → in guest", d: row.raise_to_entry },
      { group, what: "injected → EOI", d: row.inject_to_eoi },
    ].filter((line) => line.d.count > 0);
  });
  const again = data.irqs.coalesced;
  return section("interrupts", [`${grouped(rows.reduce((n, row) => n + row.injected, 0))} interrupts were injected; the most frequent, ${busiest.vector} (${busiest.pin}), half of the time within ${duration(busiest.raise_to_inject.p50_ns)}`],
    tableOf("Interrupts, table", lines, "vector and pin", "stage"),
    ...(rows.length > 12 ? [h("p", { class: "dim" }, `${rows.length - 12} more ways of interrupts are in trapline report --irq.`)] : []),
    h("p", { class: "dim" }, `${grouped(again)} interrupt${again === 1 ? " was" : "s were"} raised again while ${again === 1 ? "it was" : "they were"} pending.`));
}

function halts(data: Recording): HTMLElement {
  const won = data.halts.reduce((n, row) => n + row.polls_won.count, 0);
  const all = won + data.halts.reduce((n, row) => n + row.slept.count, 0);
  if (!all) return section("halts", ["No halts were recorded"], h("p", { class: "empty" }, "The guest did not halt, or kvm_vcpu_wakeup is missing: record with -e kvm."));
  const lines = data.halts.flatMap((row): Line[] => {
    const group = `VM ${row.vm} vCPU ${row.vcpu ?? "?"}`;
    return [
      { group, what: "polls that won", d: row.polls_won },
      { group, what: "slept", d: row.slept },
      { group, what: "woken → running", d: row.wake_to_run },
    ].filter((line) => line.d.count > 0);
  });
  return section("halts", [`Polling saved ${percent(won / all)} of ${grouped(all)} halts a sleep`], tableOf("Halts, table", lines, "vCPU", "halts"));
}

export function stages(data: Recording): HTMLElement[] {
  return [requests(data), ...workers(data), interrupts(data), halts(data), ...kernelTable(data), ...otherTables(data)];
}
