// The guest functions' own time, without callees: a flame graph by call stack, and a table.
import { clip, currentLook, h, name, replace, s, scroll } from "./dom";
import { kernelOf } from "./known";
import { busiest, child, frame, FlamePicture, way, type Frame } from "./picture";
import { duration, exact, grouped, percent } from "./text";
import { kOwn, type GuestStack, type Recording } from "./types";

const kShown = 25;

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
  private readonly title = h("h3");
  private readonly picture = new FlamePicture("Guest functions' own time by call stack", () => null,
    h("p", { class: "dim keys" }, "width: time of the whole recording in which the function, or one that it called, was innermost, in the guest and in its exits; halts are in it"));
  private readonly root: Frame = frame("all guest functions", "all", null);
  private look = -1;

  constructor(private readonly data: Recording) {
    if (data.guest_functions.length === 0) return;
    for (const stack of data.guest_stacks) {
      let at = this.root;
      const sum = own(stack);
      at.total += sum;
      for (const text of stack.stack.split(";")) {
        at = child(at, text, "function");
        at.total += sum;
      }
      at.note = note(stack);
    }
    const shown = this.root.total > 0;
    if (shown) this.heading();
    this.element.append(...(shown ? [this.title, this.picture.path, this.picture.element] : []), this.table());
  }

  private heading(): void {
    const most = busiest(this.root);
    replace(this.title, "Guest functions' own time: ", name(clip(way(most.frame).join(" → "), 70)), ` took ${percent(most.own / this.root.total)} of it`);
  }

  // It shows the whole recording, whatever is chosen.
  render(): void {
    if (this.root.total === 0 || this.look === currentLook()) return;
    this.look = currentLook();
    this.picture.show(this.root);
  }

  private table(): HTMLElement {
    const rows = this.data.guest_functions;
    const kernel = kernelOf(rows[0]);
    const head = ["Calls", "Exits", "Own time", "guest", kernel, "user", "preempted", "blocked", "halted"];
    const most = Math.max(1, ...rows.map((row) => row.own_ns));
    return h("div", {}, h("h3", {}, "Guest functions by their own time, without callees"),
      scroll("Guest functions, table",
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "function"), ...head.map((text) => h("th", { scope: "col", class: "number" }, text)), h("th", { scope: "col" }, "Own time"))),
        h("tbody", {}, ...rows.slice(0, kShown).map((row) => {
          const bar = s("svg", { width: 160, height: 12, role: "img", "aria-label": percent(row.own_ns / most) });
          let left = 0;
          for (const part of kOwn) {
            const size = (row[`${part}_ns`] / most) * 160;
            bar.append(s("rect", { class: `p-${part}`, x: left, width: size, height: 12 }, s("title", {}, `${part === "kernel" ? kernel : part} ${exact(row[`${part}_ns`])}`)));
            left += size;
          }
          const cell = (text: string, title = ""): HTMLElement => h("td", { class: "number", title }, text);
          return h("tr", {}, h("th", { scope: "row" }, name(row.name)), cell(grouped(row.calls)), cell(grouped(row.exits)), cell(duration(row.own_ns), exact(row.own_ns)),
            ...kOwn.map((part) => cell(duration(row[`${part}_ns`]), exact(row[`${part}_ns`]))), h("td", {}, bar));
        }))));
  }
}
