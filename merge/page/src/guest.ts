// The guest functions' own time, without callees: a flame graph by call stack, and a table.
import { cell, clip, column, first, h, name, number, numbers, table, time } from "./dom";
import { kernelOf } from "./known";
import { partsBar } from "./parts_bar";
import { busiest, frame, FlamePicture, grow, way, type Frame } from "./picture";
import { duration, grouped, percent } from "./text";
import { kOwn, type GuestStack, type Recording } from "./types";

const kShown = 25;
const kBar = 160; // px

function own(row: Record<`${(typeof kOwn)[number]}_ns`, number>): number {
  return kOwn.reduce((sum, part) => sum + row[`${part}_ns`], 0);
}

// ", of its own 1.2 ms: guest 80 %, kernel 20 %"
function note(stack: GuestStack): string {
  const sum = own(stack);
  const parts = kOwn.filter((part) => stack[`${part}_ns`] > 0).map((part) => `${part} ${percent(stack[`${part}_ns`] / sum)}`);
  return `, of its own ${duration(sum)}: ${parts.join(", ")}`;
}

export class Guest {
  readonly element = h("div", { id: "guest" });
  private readonly picture = new FlamePicture("Guest functions' own time by call stack", () => null,
    h("p", { class: "dim keys" }, "width: time of the whole recording in which the function, or one that it called, was innermost, in the guest and in its exits; halts are in it"));
  private readonly root: Frame = frame("all guest functions", "all", null);

  constructor(private readonly data: Recording) {
    if (data.guest_functions.length === 0) return;
    for (const stack of data.guest_stacks) grow(this.root, stack.stack.split(";").map((text) => [text, "function"]), own(stack)).note = note(stack);
    const most = busiest(this.root);
    if (this.root.total > 0) {
      this.element.append(h("h3", {}, "Guest functions' own time: ", name(clip(way(most.frame).join(" → "), 70)), ` took ${percent(most.own / this.root.total)} of it`),
        this.picture.path, this.picture.element);
    }
    this.element.append(this.table());
  }

  // It shows the whole recording, whatever is chosen.
  render(): void {
    if (this.root.total > 0) this.picture.show(this.root);
  }

  private table(): HTMLElement {
    const rows = this.data.guest_functions;
    const kernel = kernelOf(rows[0]);
    const head = ["Calls", "Exits", "Own time", "guest", kernel, "user", "preempted", "blocked", "halted"];
    const most = Math.max(1, ...rows.map((row) => row.own_ns));
    return h("div", {}, h("h3", {}, "Guest functions by their own time, without callees"),
      table("Guest functions, table", [column("function"), ...head.map((text) => numbers(text)), column("Own time")],
        rows.slice(0, kShown).map((row) => h("tr", {}, first(name(row.name)), number(grouped(row.calls)), number(grouped(row.exits)), time(row.own_ns),
          ...kOwn.map((part) => time(row[`${part}_ns`])),
          cell(partsBar(kOwn.map((part) => [part, row[`${part}_ns`], part === "kernel" ? kernel : part]), kBar, most))))));
  }
}
