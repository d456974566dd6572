// Exit time by guest stack, then reason, then device; the widest first.
import { clip, h, name, replace, section } from "./dom";
import { Guest } from "./guest";
import { knowsDurations, kRecordDurations } from "./known";
import type { Model, Selection } from "./model";
import { busiest, frame, FlamePicture, grow, way, type Frame } from "./picture";
import { percent } from "./text";
import { kDimensions } from "./types";

export function key(kind: string, text: string): HTMLElement {
  return h("span", { class: `key f-${kind}` }, text);
}

export class Flame {
  private readonly title = h("h2");
  readonly element = section("flame", this.title);
  private readonly picture: FlamePicture;
  private readonly guest: Guest;
  private readonly ways: [string, Frame["kind"]][][]; // of each combination

  constructor(private readonly model: Model) {
    const { values, combos } = model.data;
    const [stacks, devices] = [kDimensions.indexOf("stack"), kDimensions.indexOf("device")];
    this.ways = combos.map((indices) => {
      const stack = values.stack[indices[stacks] ?? 0] ?? "";
      const frames: [string, Frame["kind"]][] = stack === "-" ? [] : stack.split(";").map((f) => [f, "function"]);
      frames.push([values.reason[indices[0] ?? 0] ?? "", "reason"]);
      const device = values.device[indices[devices] ?? 0] ?? "-";
      if (device !== "-") frames.push([device, "device"]);
      return frames;
    });
    const known = values.stack.some((stack) => stack !== "-");
    this.picture = new FlamePicture("Exit time by guest stack, reason and device",
      () => (known ? null : h("span", { class: "dim" }, " — guest functions are not known: give --symbols, or record with the plugin")),
      h("p", { class: "dim keys" }, key("function", "guest function"), key("reason", "reason of the exit"), key("device", "device in QEMU"),
        "width: time in exits; halts are left out; choose a frame to zoom, Escape to go back"));
    this.guest = new Guest(model.data);
    this.element.append(this.picture.path, this.picture.element, this.guest.element);
  }

  private tree(selection: Selection): Frame {
    const root = frame("all exits", "all", null);
    for (const [combo, frames] of this.ways.entries()) {
      const count = selection.counts[combo]!;
      if (count > 0 && !this.model.isHalt(combo)) grow(root, frames, selection.totals[combo]!, count);
    }
    return root;
  }

  render(selection: Selection): void {
    this.guest.render();
    const root = this.tree(selection);
    if (!knowsDurations(this.model.data)) {
      replace(this.title, "Where the exits' time went was not recorded");
      this.picture.clear(kRecordDurations);
      return;
    }
    if (root.total === 0) {
      replace(this.title, "No exit time is in what is chosen");
      this.picture.clear("Halts are left out here. Choose another row, or Clear.");
      return;
    }
    const most = busiest(root);
    replace(this.title, "The busiest way into the host is ", name(clip(way(most.frame).join(" → "), 70)), `: ${percent(most.own / root.total)} of the exit time without halts`);
    this.picture.show(root);
  }
}
