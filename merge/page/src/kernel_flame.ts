// The kernel's time in exits by reason, then functions and handlers one in the other.
import { h, name, section } from "./dom";
import type { View } from "./drawing";
import { key } from "./flame";
import { busiest, frame, FlamePicture, grow, way, type Frame } from "./picture";
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
    grow(root, stack.split(";").map((text, depth) => [text, depth || text === "[other]" ? kindOf(text) : "reason"]), ns);
  }
  return root;
}

// Returns the heading: the function or the event that took most.
function say(root: Frame, whose: string): (Node | string)[] {
  const most = busiest(root);
  const [reason = "", ...inside] = way(most.frame);
  const share = `${percent(most.own / root.total)} of ${whose} ${duration(root.total)} in exits`;
  const what = inside.at(-1);
  if (what === undefined || what === kUntraced) return ["No event tells what took most: ", name(reason), `, ${share}`];
  return [name(what), " in ", name(reason), ` took ${share}`];
}

// Shows the whole recording, whatever is chosen. The time of the table must be known and not 0.
export function kernelFlame(stacks: KernelStack[], { whose }: KernelTable): View {
  const root = tree(stacks);
  const functions = stacks.some(({ stack }) => stack.includes("();") || stack.endsWith("()"));
  const picture = new FlamePicture("The kernel's time in exits by reason and function",
    () => (functions ? null : h("span", { class: "dim" }, " — its functions were not recorded: record --kernel-functions")),
    h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
      key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
  return { element: section("kernel-flame", say(root, whose), picture.path, picture.element), draw: () => picture.show(root) };
}
