// The longest times in which a vCPU, or a whole VM, made no progress, and why: trapline stalls.
import { clip, h, name, number, scroll } from "./dom";
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
  const title = { id: "stalls-title" };
  if (!longest) {
    return [h("section", { id: "stalls", "aria-labelledby": "stalls-title" },
      h("h2", title, `No vCPU was kept from the guest for ${duration(min_ns)} or more`))];
  }
  return [h("section", { id: "stalls", "aria-labelledby": "stalls-title" },
    h("h2", title, name(longest.name), ` made no progress for ${duration(longest.ns)}: `, clip(longest.causes[0]?.text ?? "", 100)),
    h("p", {}, longest.finding, ...longest.noticed.map(({ what, after_ns, source }) => ` A guest may notice: ${what} after ${duration(after_ns)} (${source}).`)),
    scroll("Stalls, table",
      h("thead", {}, h("tr", {}, ...["Began", "Lasted", "vCPU", "Exits", "Longest exit", "Went to"].map((text, i) =>
        h("th", { scope: "col", class: i < 2 || text === "Exits" ? "number" : "" }, text)))),
      h("tbody", {}, ...rows.map((stall) => h("tr", {},
        h("th", { scope: "row", class: "number" }, moment(stall.start)),
        number(duration(stall.ns) + (stall.open ? ", lasts" : ""), exact(stall.ns)), h("td", {}, name(stall.name)),
        number(stall.exits === null ? "–" : grouped(stall.exits)), h("td", {}, stall.exit === null ? "–" : name(stall.exit)),
        h("td", {}, ...causesOf(stall)))))),
    h("p", { class: "dim" }, `${rows.length} of ${grouped(count)} stalls of ${duration(min_ns)} and more, ${duration(total_ns)} together: trapline stalls prints them.`))];
}
