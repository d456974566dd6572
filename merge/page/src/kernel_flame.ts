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

// Of a table whose time is known, and not 0. It shows the whole recording, whatever is chosen.
class Flame {
  readonly element: HTMLElement;
  private readonly title: HTMLElement;
  private look = -1;

  // `say`: what the title tells.
  constructor(
    id: string,
    private readonly root: Frame,
    private readonly picture: FlamePicture,
    private readonly say: () => (Node | string)[],
  ) {
    this.title = h("h2", { id: `${id}-title` });
    this.element = h("section", { id, "aria-labelledby": `${id}-title` }, this.title, picture.path, picture.element);
  }

  render(): void {
    if (this.look === currentLook()) return;
    this.look = currentLook();
    replace(this.title, ...this.say());
    this.picture.show(this.root);
  }
}

export function kernelFlame(stacks: KernelStack[], table: KernelTable): Flame {
  const root = tree(stacks, kindByEvents);
  const functions = stacks.some(({ stack }) => stack.includes("();") || stack.endsWith("()"));
  const picture = new FlamePicture("The kernel's time in exits by reason and function",
    () => (functions ? null : h("span", { class: "dim" }, " — its functions were not recorded: record --kernel-functions")),
    h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
      key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
  return new Flame("kernel-flame", root, picture, () => {
    const most = busiest(root);
    const [reason = "", ...inside] = way(most.frame);
    const share = `${percent(most.own / root.total)} of ${table.whose} ${duration(root.total)} in exits`;
    const what = inside.at(-1);
    if (what === undefined || what === kUntraced) return ["No event tells what took most: ", name(reason), `, ${share}`];
    return [name(what), " in ", name(reason), ` took ${share}`];
  });
}

// The same by perf's samples.
export function sampleFlame(stacks: KernelStack[], table: KernelSampleTable): Flame {
  const root = tree(stacks, kindBySamples);
  const picture = new FlamePicture("The kernel's time in exits by reason and sampled stack", () => null,
    h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("all", kNotSampled),
      "width: the kernel's time in all exits, as its samples estimate it; choose a frame to zoom, Escape to go back"));
  return new Flame("sample-flame", root, picture, () => {
    const most = busiest(root, (one) => one.kind === "function");
    const [reason = "", ...inside] = way(most.frame);
    const whole = `${table.whose} ${duration(root.total)} in exits`;
    const what = inside.at(-1);
    if (what === undefined) return [`No sample tells of ${whole}`];
    return ["Of all stacks the one to ", name(what), " in ", name(reason), ` took most, about ${percent(most.own / root.total)} of ${whole}, by ${grouped(table.samples)} samples`];
  });
}
