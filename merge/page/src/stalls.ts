// The longest times in which a vCPU, or a whole VM, made no progress, and why: trapline stalls.
import { cell, clip, column, h, name, number, numbers, section, table } from "./dom";
import { duration, exact, grouped, moment, percent } from "./text";
import type { Recording, Stall } from "./types";

const kCauses = 3; // of a stall

function causesOf(stall: Stall): (Node | string)[] {
  const shown = stall.causes.slice(0, kCauses).filter((cause, i) => i === 0 || cause.ns * 20 >= stall.ns);
  return shown.flatMap(({ cause, culprit, phase, ns }, i) =>
    [i ? "; " : "", cause, culprit === null ? "" : ": ", culprit === null ? "" : name(clip(culprit, 60)), phase === null ? " " : ` (${phase}) `, `${percent(ns / Math.max(1, stall.ns))}`]);
}

export function stalls(data: Recording): HTMLElement[] {
  if (!data.stalls) return [];
  const { rows, count, total_ns, min_ns } = data.stalls;
  const longest = rows[0];
  if (!longest) return [section("stalls", [`No vCPU was kept from the guest for ${duration(min_ns)} or more`])];
  return [section("stalls", [name(longest.name), ` made no progress for ${duration(longest.ns)}: `, clip(longest.causes[0]?.text ?? "", 100)],
    h("p", {}, longest.finding, ...longest.noticed.map(({ what, after_ns, source }) => ` A guest may notice: ${what} after ${duration(after_ns)} (${source}).`)),
    table("Stalls, table", [numbers("Began"), numbers("Lasted"), column("vCPU"), numbers("Exits"), column("Longest exit"), column("Went to")],
      rows.map((stall) => h("tr", {}, h("th", { scope: "row", class: "number" }, moment(stall.start)),
        number(duration(stall.ns) + (stall.open ? ", lasts" : ""), exact(stall.ns)), cell(name(stall.name)),
        number(stall.exits === null ? "–" : grouped(stall.exits)), cell(stall.exit === null ? "–" : name(stall.exit)), cell(...causesOf(stall))))),
    h("p", { class: "dim" }, `${rows.length} of ${grouped(count)} stalls of ${duration(min_ns)} and more, ${duration(total_ns)} together: trapline stalls prints them.`))];
}
