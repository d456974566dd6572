// Flame graphs: frames as wide as their time, the widest first, callers above; a frame can be zoomed into. The exits' is
// by guest stack, then reason, then device; the guest functions' own time is by call stack, and the kernel's time in
// exits by reason, then functions and handlers one in the other.
import type { Change, Choice } from "./choice";
import { button, clip, entitle, h, name, nothing, replace, s, section, watch, widthOf } from "./dom";
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

// Adds a time to a frame and to the frames inside it, one in the other. Returns the last of these frames.
function grow(at: Frame, frames: [string, Kind][], ns: number, count = 0, depth = 0): Frame {
  at.total += ns;
  at.count += count;
  const one = frames[depth];
  if (!one) return at;
  const [text, kind] = one;
  const key = `${kind}:${text}`;
  const next = at.children.get(key) ?? frame(text, kind, at);
  at.children.set(key, next);
  return grow(next, frames, ns, count, depth + 1);
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

// Returns the frames from the root to this one, without the root.
const way = (of: Frame): Frame[] => (of.parent ? [...way(of.parent), of] : []);
const keyOf = ({ kind, name }: Frame): string => `${kind}:${name}`;
const wayTo = (of: Frame): HTMLElement => name(clip(way(of).map((one) => one.name).join(" → "), 70));
const key = (kind: Kind, text: string): HTMLElement => h("span", { class: `key f-${kind}` }, text);

// A picture that is zoomed into the frame that the choice has for it. `after` ends the line above the picture; `under`
// stands below it.
function flamePicture(id: string, change: Change, label: string, after: string, under: Node) {
  const path = h("p", { class: "path" });
  const picture = h("div", { class: "picture" });
  const element = h("div", {}, path, picture);
  const isNew = watch();
  let zoom: Choice["zoom"] = {};

  const go = (to: Frame): void => change({ zoom: { ...zoom, [id]: way(to).map(keyOf) } });

  // Does nothing if the picture shows this already.
  function show(root: Frame, choice: Choice): void {
    zoom = choice.zoom;
    const keys = zoom[id] ?? [];
    if (!isNew(root, keys.join("\n"))) return;
    let top = root; // or the last frame on the way to the chosen one that exists
    for (const key of keys) {
      const next = top.children.get(key);
      if (!next) break;
      top = next;
    }
    const focused = element.contains(document.activeElement);
    replace(path, ...[root, ...way(top)].flatMap((one) => [one !== root && " › ",
      one === top ? h("strong", {}, name(clip(one.name, 40)), ` ${duration(one.total)}${noteOf(one)}`)
        : button({ class: "link", click: () => go(one) }, clip(one.name, 40))]),
    after && h("span", { class: "dim" }, ` — ${after}`));
    replace(picture, drawn(root, top, widthOf(picture)), under);
    if (focused) picture.querySelector<SVGGElement>(".frame")?.focus();
  }

  function drawn(root: Frame, top: Frame, width: number): SVGSVGElement {
    const all: SVGElement[] = [];
    let deepest = 0;
    const place = (one: Frame, left: number, size: number, depth: number): void => {
      if (size < kLeast || depth > kDeepest) return;
      deepest = Math.max(deepest, depth);
      all.push(group(one, root, top, left, size, depth));
      // This text may be cut: the label of the frame, which is the button, has the whole name.
      if (size > 26) all.push(s("text", { class: "frame-name", x: left + 4, y: depth * kRow + 14 }, clip(one.name, Math.floor((size - 8) / 6.6))));
      let next = left;
      for (const inner of [...one.children.values()].sort((a, b) => b.total - a.total)) {
        const part = (inner.total / Math.max(1, one.total)) * size;
        place(inner, next, part, depth + 1);
        next += part;
      }
    };
    place(top, 0, width, 0);
    return s("svg", { class: "flame", width, height: (deepest + 1) * kRow, role: "group", "aria-label": label }, ...all);
  }

  function group(one: Frame, root: Frame, top: Frame, left: number, size: number, depth: number): SVGElement {
    const label = `${one.name}: ${duration(one.total)}, ${percent(one.total / Math.max(1, root.total))}${noteOf(one)}`;
    return s("g", { class: `frame f-${one.kind}`, tabindex: 0, role: "button", "aria-label": label,
      "data-frame": way(one).map(keyOf).join("\n"), click: () => go(one),
      keydown: (event) => {
        const { key } = event as KeyboardEvent;
        const to = key === "Enter" || key === " " ? one : key === "Escape" ? top.parent : null;
        if (!to) return;
        event.preventDefault();
        go(to);
      } },
      s("title", {}, `${label}\n${exact(one.total)}`),
      s("rect", { x: left, y: depth * kRow, width: Math.max(1, size - 1), height: kRow - 2 }));
  }

  return { element, show };
}

// The guest functions' own time, without callees: a flame graph by call stack, and a table.
// Shows the whole recording, whatever is chosen.
function guestFunctions({ tables }: Recording, change: Change): View<[Choice]> {
  const element = h("div", { id: "guest" });
  const functions = tables.guest_functions?.rows ?? [];
  if (functions.length === 0) return { element, draw: () => {} };
  const picture = flamePicture("guest", change, "Guest functions' own time by call stack", "",
    h("p", { class: "dim keys" }, "width: time of the whole recording in which the function, or one that it called, was innermost, in the guest and in its exits; halts are in it"));
  const root = frame("all guest functions", "all", null);
  for (const row of tables.guest_stacks?.rows ?? []) {
    const own = kOwn.reduce((sum, part) => sum + row[`${part}_ns`], 0);
    const parts = kOwn.filter((part) => row[`${part}_ns`] > 0).map((part) => `${part} ${percent(row[`${part}_ns`] / own)}`);
    grow(root, row.stack.split(";").map((text: string) => [text, "function"]), own).note = `, of its own ${duration(own)}: ${parts.join(", ")}`;
  }
  const most = busiest(root);
  if (root.total > 0) element.append(h("h3", {}, "Guest functions' own time: ", wayTo(most.frame), ` took ${percent(most.own / root.total)} of it`), picture.element);
  const longest = Math.max(1, ...functions.map((row) => row.own_ns));
  element.append(h("h3", {}, "Guest functions by their own time, without callees"), rowsTable("Guest functions",
    [["function", "name", "name"], ["Calls", "count", "calls"], ["Exits", "count", "exits"], ["Own time", "time", "own_ns"],
      ...kOwn.map((part): Column => [part === "kernel" ? kernelOf(functions[0]) : part, "time", `${part}_ns`]), ["Own time", "node", (row) => partsBar(row, kOwn, kBar, longest)]],
    functions, 0, "trapline report --guest"));
  return { element, draw: (choice) => { if (root.total > 0) picture.show(root, choice); } };
}

export function flame(model: Model, change: Change): View {
  const { values, combos } = model.data;
  const known = values.stack.some((stack) => stack !== "-");
  const picture = flamePicture("flame", change, "Exit time by guest stack, reason and device",
    known ? "" : "guest functions are not known: give report --symbols FILE, or under TCG record --functions",
    h("p", { class: "dim keys" }, key("function", "guest function"), key("reason", "reason of the exit"), key("device", "device in QEMU"),
      "width: time in exits; halts are left out; choose a frame to zoom, Escape to go back"));
  const guest = guestFunctions(model.data, change);
  const element = section("flame", [], picture.element, guest.element);
  const ways = combos.map((indices): [string, Kind][] => {
    const [stack, reason, device] = (["stack", "reason", "device"] as const)
      .map((of) => values[of][indices[kDimensions.indexOf(of)] ?? 0] ?? "-") as [string, string, string];
    const named = (texts: string[], kind: Kind): [string, Kind][] => texts.map((text) => [text, kind]);
    return [...named(stack === "-" ? [] : stack.split(";"), "function"), [reason, "reason"],
      ...named(device === "-" ? [] : [device], "device")];
  });

  function draw(choice: Choice, { counts, totals }: Selection): void {
    guest.draw(choice);
    const root = frame("all exits", "all", null);
    ways.forEach((frames, combo) => {
      if (counts[combo]! > 0 && !model.isHalt(combo)) grow(root, frames, totals[combo]!, counts[combo]!);
    });
    if (!knowsDurations(model.data)) return void nothing(element, "Where the exits' time went was not recorded", kRecord);
    if (root.total === 0) return void nothing(element, "No exit time is in what is chosen, without halts: choose another row, or Clear");
    const most = busiest(root);
    entitle(element, "Of the time in exits, waits for a CPU included, ", wayTo(most.frame), ` took ${percent(most.own / root.total)}`);
    picture.show(root, choice);
  }

  return { element, draw };
}

// The kernel's time in exits. Shows the whole recording, whatever is chosen. The time of the table must be known and not 0.
export function kernelFlame(stacks: Fields[], { whose }: Rows, change: Change): View {
  const root = frame("the kernel in exits", "all", null);
  const kindOf = (text: string): Kind => (text.endsWith("()") ? "function" : text === kUntraced || text === "[other]" ? "all" : "event");
  for (const { stack, ns } of stacks) grow(root, stack.split(";").map((text: string, depth: number) => [text, depth || text === "[other]" ? kindOf(text) : "reason"]), ns);
  const most = busiest(root);
  const [reason = "", ...inside] = way(most.frame).map((one) => one.name);
  const share = `${percent(most.own / root.total)} of ${whose} ${duration(root.total)} in exits`;
  const what = inside.at(-1);
  const picture = flamePicture("kernel-flame", change, "The kernel's time in exits by reason and function",
    stacks.some(({ stack }) => stack.includes("()")) ? "" : "its functions were not recorded: record --kernel-functions",
    h("p", { class: "dim keys" }, key("reason", "reason of the exit"), key("function", "function of the kernel"), key("event", "handler, or time after an event"),
      key("all", kUntraced), "width: the kernel's time in all exits; choose a frame to zoom, Escape to go back"));
  return { element: section("kernel-flame", what === undefined || what === kUntraced ? ["No event tells what took most: ", name(reason), `, ${share}`] : [name(what), " in ", name(reason), ` took ${share}`], picture.element),
    draw: (choice) => picture.show(root, choice) };
}
