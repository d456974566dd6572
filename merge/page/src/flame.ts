// Flame graphs: frames as wide as their time, the widest first, callers above; a frame can be zoomed into. The exits' is
// by guest stack, then reason, then device; the guest functions' own time is by call stack, and the kernel's time in
// exits by reason, then functions and handlers one in the other.
import { clip, currentLook, entitle, h, name, nothing, replace, s, section, widthOf } from "./dom";
import type { View } from "./drawing";
import { kernelOf, knowsDurations, kRecord } from "./known";
import type { Model, Selection } from "./model";
import { partsBar, rowsTable, type Column } from "./rows";
import { counted, duration, exact, percent } from "./text";
import { kDimensions, kOwn, type Fields, type Recording, type Rows } from "./types";

const kRow = 22;
const kLeast = 2; // pixels of a frame that is drawn
const kDeepest = 60;

const kUntraced = "untraced";
const kBar = 160; // px

type Kind = "all" | "function" | "reason" | "device" | "event";
interface Frame {
  name: string;
  kind: Kind;
  total: number; // with its children
  count: number; // exits; 0 if the note tells them
  note: string; // said after the time
  children: Map<string, Frame>;
  parent: Frame | null;
}

function frame(name: string, kind: Kind, parent: Frame | null): Frame {
  return { name, kind, total: 0, count: 0, note: "", children: new Map(), parent };
}

// Adds a time to the root and to all frames on the way from it. Returns the last of these frames.
function grow(root: Frame, frames: [string, Kind][], ns: number, count = 0): Frame {
  let at = root;
  for (const one of [null, ...frames]) {
    if (one) {
      const [text, kind] = one;
      const found = at.children.get(`${kind}:${text}`) ?? frame(text, kind, at);
      at.children.set(`${kind}:${text}`, found);
      at = found;
    }
    at.total += ns;
    at.count += count;
  }
  return at;
}

const noteOf = (one: Frame): string => (one.count ? ` in ${counted(one.count, "exit")}` : one.note);

// Finds the frame with the most own time: the time that none of its children has.
function busiest(root: Frame): { frame: Frame; own: number } {
  let most = { frame: root, own: -1 };
  const look = (one: Frame): void => {
    let own = one.total;
    for (const next of one.children.values()) {
      own -= next.total;
      look(next);
    }
    if (one !== root && own > most.own) most = { frame: one, own };
  };
  look(root);
  return most;
}

// Returns the names of the frames from the root to this one, without the root.
function way(of: Frame): string[] {
  const words: string[] = [];
  for (let at: Frame | null = of; at?.parent; at = at.parent) words.unshift(at.name);
  return words;
}

const wayTo = (of: Frame): HTMLElement => name(clip(way(of).join(" → "), 70));
const key = (kind: Kind, text: string): HTMLElement => h("span", { class: `key f-${kind}` }, text);

// The frame that each picture is zoomed into, as the keys of the frames on the way to it. The address has them.
export interface Zooms {
  of: (picture: string) => string[];
  change: (picture: string, keys: string[]) => void;
}

class FlamePicture {
  private readonly path = h("p", { class: "path" });
  private readonly picture = h("div", { class: "picture" });
  readonly element = h("div", {}, this.path, this.picture);
  private zoom: string[] = [];
  private asked = ""; // the zoom, though the frame may not be there
  private root: Frame | null = null;
  private look = -1;

  // `after` ends the line above the picture; `under` stands below it.
  constructor(
    private readonly id: string,
    private readonly zooms: Zooms,
    private readonly label: string,
    private readonly after: string,
    private readonly under: Node,
  ) {}

  // Does nothing if the picture shows this already.
  show(root: Frame): void {
    const zoom = this.zooms.of(this.id);
    if (this.root === root && this.look === currentLook() && this.asked === zoom.join("\n")) return;
    [this.root, this.look, this.zoom, this.asked] = [root, currentLook(), zoom, zoom.join("\n")];
    this.draw();
  }

  private go(keys: string[]): void {
    [this.zoom, this.asked] = [keys, keys.join("\n")];
    this.draw(this.asked);
    this.zooms.change(this.id, keys);
  }

  // Returns the frame to zoom into, or the last frame on the way to it that exists.
  private top(root: Frame): Frame {
    let top = root;
    const kept: string[] = [];
    for (const key of this.zoom) {
      const next = top.children.get(key);
      if (!next) break;
      top = next;
      kept.push(key);
    }
    this.zoom = kept;
    return top;
  }

  private steps(top: Frame): (Node | string | null)[] {
    const steps: Frame[] = [];
    for (let at: Frame | null = top; at; at = at.parent) steps.unshift(at);
    return steps.flatMap((one, depth) => [depth ? " › " : "",
      one === top ? h("strong", {}, name(clip(one.name, 40)), ` ${duration(one.total)}${noteOf(one)}`)
        : h("button", { type: "button", class: "link", click: () => this.go(this.zoom.slice(0, depth)) }, clip(one.name, 40))]);
  }

  private draw(focus?: string): void {
    const { root } = this;
    if (!root) return;
    const top = this.top(root);
    replace(this.path, ...this.steps(top), this.after && h("span", { class: "dim" }, ` — ${this.after}`));
    const width = widthOf(this.picture);
    const drawn: SVGElement[] = [];
    let deepest = 0;
    const place = (one: Frame, left: number, size: number, depth: number, keys: string[]): void => {
      if (size < kLeast || depth > kDeepest) return;
      deepest = Math.max(deepest, depth);
      drawn.push(this.group(one, root, left, size, depth, keys));
      // This text may be cut: the label of the frame, which is the button, has the whole name.
      if (size > 26) drawn.push(s("text", { class: "frame-name", x: left + 4, y: depth * kRow + 14 }, clip(one.name, Math.floor((size - 8) / 6.6))));
      let next = left;
      for (const [key, inner] of [...one.children].sort((a, b) => b[1].total - a[1].total)) {
        const part = (inner.total / Math.max(1, one.total)) * size;
        place(inner, next, part, depth + 1, [...keys, key]);
        next += part;
      }
    };
    place(top, 0, width, 0, this.zoom);
    const svg = s("svg", { class: "flame", width, height: (deepest + 1) * kRow, role: "group", "aria-label": this.label }, ...drawn);
    replace(this.picture, svg, this.under);
    if (focus === undefined) return;
    for (const one of svg.querySelectorAll<SVGGElement>("[data-frame]")) if (one.dataset.frame === focus) one.focus();
  }

  private group(one: Frame, root: Frame, left: number, size: number, depth: number, keys: string[]): SVGElement {
    const label = `${one.name}: ${duration(one.total)}, ${percent(one.total / Math.max(1, root.total))}${noteOf(one)}`;
    return s("g", { class: `frame f-${one.kind}`, tabindex: 0, role: "button", "aria-label": label, "data-frame": keys.join("\n"), click: () => this.go(keys),
      keydown: (event) => {
        const { key } = event as KeyboardEvent;
        const to = key === "Enter" || key === " " ? keys : key === "Escape" && this.zoom.length ? this.zoom.slice(0, -1) : null;
        if (!to) return;
        event.preventDefault();
        this.go(to);
      } },
      s("title", {}, `${label}\n${exact(one.total)}`),
      s("rect", { x: left, y: depth * kRow, width: Math.max(1, size - 1), height: kRow - 2 }));
  }
}

// The guest functions' own time, without callees: a flame graph by call stack, and a table.
class GuestFunctions {
  readonly element = h("div", { id: "guest" });
  private readonly picture: FlamePicture;
  private readonly root = frame("all guest functions", "all", null);

  constructor({ tables }: Recording, zooms: Zooms) {
    this.picture = new FlamePicture("guest", zooms, "Guest functions' own time by call stack", "",
      h("p", { class: "dim keys" }, "width: time of the whole recording in which the function, or one that it called, was innermost, in the guest and in its exits; halts are in it"));
    const functions = tables.guest_functions?.rows ?? [];
    if (functions.length === 0) return;
    for (const row of tables.guest_stacks?.rows ?? []) {
      const own = kOwn.reduce((sum, part) => sum + row[`${part}_ns`], 0);
      const parts = kOwn.filter((part) => row[`${part}_ns`] > 0).map((part) => `${part} ${percent(row[`${part}_ns`] / own)}`);
      grow(this.root, row.stack.split(";").map((text: string) => [text, "function"]), own).note = `, of its own ${duration(own)}: ${parts.join(", ")}`;
    }
    const most = busiest(this.root);
    if (this.root.total > 0) this.element.append(h("h3", {}, "Guest functions' own time: ", wayTo(most.frame), ` took ${percent(most.own / this.root.total)} of it`), this.picture.element);
    const longest = Math.max(1, ...functions.map((row) => row.own_ns));
    this.element.append(h("h3", {}, "Guest functions by their own time, without callees"), rowsTable("Guest functions",
      [["function", "name", "name"], ["Calls", "count", "calls"], ["Exits", "count", "exits"], ["Own time", "time", "own_ns"],
        ...kOwn.map((part): Column => [part === "kernel" ? kernelOf(functions[0]) : part, "time", `${part}_ns`]), ["Own time", "node", (row) => partsBar(row, kOwn, kBar, longest)]],
      functions, 0, "trapline report --guest"));
  }

  // Shows the whole recording, whatever is chosen.
  render(): void {
    if (this.root.total > 0) this.picture.show(this.root);
  }
}

export class Flame {
  readonly element = section("flame", []);
  private readonly picture: FlamePicture;
  private readonly guest: GuestFunctions;
  private readonly ways: [string, Kind][][]; // of each combination

  constructor(private readonly model: Model, zooms: Zooms) {
    const { values, combos } = model.data;
    const [stacks, devices] = [kDimensions.indexOf("stack"), kDimensions.indexOf("device")];
    this.ways = combos.map((indices) => {
      const stack = values.stack[indices[stacks] ?? 0] ?? "";
      const frames: [string, Kind][] = stack === "-" ? [] : stack.split(";").map((f) => [f, "function"]);
      frames.push([values.reason[indices[0] ?? 0] ?? "", "reason"]);
      const device = values.device[indices[devices] ?? 0] ?? "-";
      if (device !== "-") frames.push([device, "device"]);
      return frames;
    });
    const known = values.stack.some((stack) => stack !== "-");
    this.picture = new FlamePicture("flame", zooms, "Exit time by guest stack, reason and device",
      known ? "" : "guest functions are not known: give report --symbols FILE, or under TCG record --functions",
      h("p", { class: "dim keys" }, key("function", "guest function"), key("reason", "reason of the exit"), key("device", "device in QEMU"),
        "width: time in exits; halts are left out; choose a frame to zoom, Escape to go back"));
    this.guest = new GuestFunctions(model.data, zooms);
    this.element.append(this.picture.element, this.guest.element);
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
      nothing(this.element, "Where the exits' time went was not recorded", kRecord);
    } else if (root.total === 0) {
      nothing(this.element, "No exit time is in what is chosen, without halts: choose another row, or Clear");
    } else {
      const most = busiest(root);
      entitle(this.element, "Of the time in exits, waits for a CPU included, ", wayTo(most.frame), ` took ${percent(most.own / root.total)}`);
      this.picture.show(root);
    }
  }
}

// The kernel's time in exits. Shows the whole recording, whatever is chosen. The time of the table must be known and not 0.
export function kernelFlame(stacks: Fields[], { whose }: Rows, zooms: Zooms): View {
  const root = frame("the kernel in exits", "all", null);
  const kindOf = (text: string): Kind => (text.endsWith("()") ? "function" : text === kUntraced || text === "[other]" ? "all" : "event");
  for (const { stack, ns } of stacks) grow(root, stack.split(";").map((text: string, depth: number) => [text, depth || text === "[other]" ? kindOf(text) : "reason"]), ns);
  const most = busiest(root);
  const [reason = "", ...inside] = way(most.frame);
  const share = `${percent(most.own / root.total)} of ${whose} ${duration(root.total)} in exits`;
  const what = inside.at(-1);
  const picture = new FlamePicture("kernel-flame", zooms, "The kernel's time in exits by reason and function",
    stacks.some(({ stack }) => stack.includes("()")) ? "" : "its functions were not recorded: record --kernel-functions",
    h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
      key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
  return { element: section("kernel-flame", what === undefined || what === kUntraced ? ["No event tells what took most: ", name(reason), `, ${share}`] : [name(what), " in ", name(reason), ` took ${share}`], picture.element),
    draw: () => picture.show(root) };
}
