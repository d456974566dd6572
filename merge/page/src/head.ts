// What was recorded, with its losses and error bounds in plain sight; what the page leaves out.
import { cell, column, first, h, name, number, numbers, section, table } from "./dom";
import { counted, duration, exact, grouped } from "./text";
import type { Recording } from "./types";

// `side`: of a comparison.
export function head(data: Recording, side = ""): HTMLElement {
  const events = data.sources.reduce((n, source) => n + source.events, 0);
  const lost = data.counters["lost_events"] ?? 0;
  const gaps = data.counters["gaps"] ?? 0;
  const exits = data.counters["exits"];
  const facts = h("dl", { class: "facts" });
  const fact = (term: string, ...what: (Node | string)[]): void => {
    facts.append(h("div", {}, h("dt", {}, term), h("dd", {}, ...what)));
  };
  fact("Duration", duration(data.duration_ns));
  fact("Events", grouped(events));
  fact("Exits", typeof exits === "number" ? grouped(exits) : "–");
  for (const [term, text] of data.recorded) fact(term, name(text));
  const uncounted = data.counters["gaps_uncounted"] ?? 0;
  const count = lost === 0 && uncounted === gaps ? "An unknown number of" : grouped(lost);
  const losses = gaps > 0
    ? h("p", { class: "alert", role: "note" }, h("span", { class: "hatch", "aria-hidden": "true" }),
      h("strong", {}, `${count} event${lost === 1 ? " was" : "s were"} lost in ${grouped(gaps)} ${gaps === 1 ? "loss" : "losses"}`), uncounted > 0 && lost > 0 ? ` (${uncounted} without a count)` : "",
      ". No exit bridges a loss; they are hatched in the pictures below.",
      data.lost_left_out > 0 ? ` The pictures show the longest ${data.lost.length} of them.` : "")
    : data.missing.length === 0 && h("p", { class: "good" }, h("span", { "aria-hidden": "true" }, "✓ "), "No events were lost.");
  const missing = data.missing.length > 0 && h("p", { class: "alert", role: "note" }, h("strong", {}, "Events are missing"), `: ${data.missing.join("; ")}.`);
  const sources = table("Sources, table", [...["Source", "Kind", "Clock", "Aligned by", "Offset", "Error at most"].map((text) => column(text)), numbers("Events"), numbers("Lost")],
    data.sources.map((source) => h("tr", {}, first(name(source.path)), cell(source.kind), cell(name(source.clock), source.resolution_ns !== null && `, resolution ${exact(source.resolution_ns)}`), cell(source.method),
      number(`${source.offset_ns} ns`), h("td", { class: "number" }, source.error_ns === null ? h("strong", {}, "not known") : source.error_ns === "0" ? "0: same clock" : `± ${exact(Number(source.error_ns))}`),
      number(grouped(source.events)), number(source.lost === null ? "–" : grouped(source.lost)))));
  sources.classList.add("sources");
  const notes = data.notes.filter((note) => !data.missing.includes(note));
  return section(side ? `recorded-${side}` : "recorded", [side ? `${side}: ` : "", `${typeof exits === "number" ? counted(exits, "VM exit") : "VM exits, not counted,"} of ${counted(data.vcpus.length, "vCPU")} in ${duration(data.duration_ns)}`],
    data.finding && h("p", { class: "finding" }, data.finding), losses, missing, facts, sources,
    notes.length > 0 && h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, note))));
}

const kCounted: [string, string][] = [
  ["exit_without_entry", "exits whose end was not seen"],
  ["entry_without_exit", "entries whose exit was not seen"],
  ["closed_by_loss", "exits that a loss closed"],
  ["user_without_end", "times in user space that only kvm_entry ended"],
  ["clock_went_back", "events stamped before their thread's last one"],
  ["damaged_events", "events shorter than their format"],
  ["groups_folded", "exits in [other]"],
  ["requests_restarted", "requests begun again before they ended"],
  ["requests_end_only", "ends of requests that nothing began"],
];

// Of one: "1 entry whose exit was not seen".
function singular(text: string): string {
  return text.replace(/^entries/, "entry").replace(/^(\w+?)s\b/, "$1").replace(/\btheir\b/, "its").replace(/\bthey\b/, "it");
}

export function foot(data: Recording, side = ""): HTMLElement {
  const told = kCounted.filter(([key]) => (data.counters[key] ?? 0) > 0).map(([key, text]) => (data.counters[key] === 1 ? `1 ${singular(text)}` : `${grouped(data.counters[key] ?? 0)} ${text}`));
  return section(side ? `left-out-${side}` : "left-out", [side ? `${side}: what this page does not hold` : "What this page does not hold"],
    h("ul", {}, ...[...told, ...data.left_out].map((text) => h("li", {}, text)),
      h("li", {}, `User time ends at: ${data.user_end === "none" ? "not recorded" : data.user_end}. Time bins are ${duration(data.time.bin_ns)} long; figures of a chosen interval count the exits that began in its bins.`)));
}
