// The kernel's time in exits by reason, then functions and handlers one in the other.
import { currentLook, h, name, replace } from "./dom";
import { key } from "./flame";
import { busiest, child, frame, FlamePicture, way, type Frame } from "./picture";
import { duration, percent } from "./text";
import type { KernelStack, KernelTable } from "./types";

const kUntraced = "untraced";

function kindOf(text: string): Frame["kind"] {
  if (text.endsWith("()")) return "function";
  return text === kUntraced || text === "[other]" ? "all" : "event";
}

function tree(stacks: KernelStack[]): Frame {
  const root = frame("the kernel in exits", "all", null);
  for (const { stack, ns } of stacks) {
    let at = root;
    at.total += ns;
    for (const [depth, text] of stack.split(";").entries()) {
      at = child(at, text, depth || text === "[other]" ? kindOf(text) : "reason");
      at.total += ns;
    }
  }
  return root;
}

// Of a table whose time is known, and not 0. It shows the whole recording, whatever is chosen.
export class KernelFlame {
  readonly element: HTMLElement;
  private readonly title = h("h2", { id: "kernel-flame-title" });
  private readonly root: Frame;
  private readonly picture: FlamePicture;
  private look = -1;

  constructor(stacks: KernelStack[], private readonly table: KernelTable) {
    this.root = tree(stacks);
    const functions = stacks.some(({ stack }) => stack.includes("();") || stack.endsWith("()"));
    this.picture = new FlamePicture("The kernel's time in exits by reason and function",
      () => (functions ? null : h("span", { class: "dim" }, " — its functions were not recorded: record --kernel-functions")),
      h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
        key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
    this.element = h("section", { id: "kernel-flame", "aria-labelledby": "kernel-flame-title" }, this.title, this.picture.path, this.picture.element);
  }

  render(): void {
    if (this.look === currentLook()) return;
    this.look = currentLook();
    replace(this.title, ...this.say());
    this.picture.show(this.root);
  }

  private say(): (Node | string)[] {
    const most = busiest(this.root);
    const [reason = "", ...inside] = way(most.frame);
    const share = `${percent(most.own / this.root.total)} of ${this.table.whose} ${duration(this.root.total)} in exits`;
    const what = inside.at(-1);
    if (what === undefined || what === kUntraced) return ["No event tells what took most: ", name(reason), `, ${share}`];
    return [name(what), " in ", name(reason), ` took ${share}`];
  }
}
