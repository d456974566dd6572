// The kernel's time in exits by reason, then functions and handlers one in the other.
import { currentLook, h, name, replace } from "./dom";
import { key } from "./flame";
import { busiest, child, frame, FlamePicture, way, type Frame } from "./picture";
import { duration, grouped, percent } from "./text";
import type { KernelSampleTable, KernelStack, KernelTable } from "./types";

const kUntraced = "untraced";
const kNotSampled = "not sampled";

function kindByEvents(text: string): Frame["kind"] {
  if (text.endsWith("()")) return "function";
  return text === kUntraced || text === "[other]" ? "all" : "event";
}

function kindBySamples(text: string): Frame["kind"] {
  return text === kNotSampled || text === "[other]" ? "all" : "function";
}

function tree(stacks: KernelStack[], kind: (text: string) => Frame["kind"]): Frame {
  const root = frame("the kernel in exits", "all", null);
  for (const { stack, ns } of stacks) {
    let at = root;
    at.total += ns;
    for (const [depth, text] of stack.split(";").entries()) {
      at = child(at, text, depth || text === "[other]" ? kind(text) : "reason");
      at.total += ns;
    }
  }
  return root;
}

export class KernelFlame {
  readonly element = h("section", { id: "kernel-flame", "aria-labelledby": "kernel-flame-title" });
  private readonly title = h("h2", { id: "kernel-flame-title" });
  private readonly picture: FlamePicture;
  private readonly root: Frame;
  private readonly whose: string;
  private look = -1;

  // Of a table whose time is known, and not 0.
  constructor(stacks: KernelStack[], table: KernelTable) {
    this.whose = table.whose;
    this.root = tree(stacks, kindByEvents);
    const functions = stacks.some(({ stack }) => stack.includes("();") || stack.endsWith("()"));
    this.picture = new FlamePicture("The kernel's time in exits by reason and function",
      () => (functions ? null : h("span", { class: "dim" }, " — its functions were not recorded: record --kernel-functions")),
      h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
        key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
    this.element.append(this.title, this.picture.path, this.picture.element);
  }

  // It shows the whole recording, whatever is chosen.
  render(): void {
    if (this.look === currentLook()) return;
    this.look = currentLook();
    const most = busiest(this.root);
    const [reason = "", ...inside] = way(most.frame);
    const share = `${percent(most.own / this.root.total)} of ${this.whose} ${duration(this.root.total)} in exits`;
    const what = inside.at(-1);
    if (what === undefined || what === kUntraced) replace(this.title, "No event tells what took most: ", name(reason), `, ${share}`);
    else replace(this.title, name(what), " in ", name(reason), ` took ${share}`);
    this.picture.show(this.root);
  }
}

// The same by perf's samples.
export class SampleFlame {
  readonly element = h("section", { id: "sample-flame", "aria-labelledby": "sample-flame-title" });
  private readonly title = h("h2", { id: "sample-flame-title" });
  private readonly picture: FlamePicture;
  private readonly root: Frame;
  private look = -1;

  // Of a table whose time is known, and not 0.
  constructor(stacks: KernelStack[], private readonly table: KernelSampleTable) {
    this.root = tree(stacks, kindBySamples);
    this.picture = new FlamePicture("The kernel's time in exits by reason and sampled stack", () => null,
      h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("all", kNotSampled),
        "width: the kernel's time in all exits, as its samples estimate it; choose a frame to zoom, Escape to go back"));
    this.element.append(this.title, this.picture.path, this.picture.element);
  }

  render(): void {
    if (this.look === currentLook()) return;
    this.look = currentLook();
    const most = busiest(this.root, (one) => one.kind === "function");
    const [reason = "", ...inside] = way(most.frame);
    const whole = `${this.table.whose} ${duration(this.root.total)} in exits`;
    const what = inside.at(-1);
    if (what === undefined) replace(this.title, `No sample tells of ${whole}`);
    else replace(this.title, "Of all stacks the one to ", name(what), " in ", name(reason), ` took most, about ${percent(most.own / this.root.total)} of ${whole}, by ${grouped(this.table.samples)} samples`);
    this.picture.show(this.root);
  }
}
