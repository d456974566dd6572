// Exit time by guest stack, then reason, then device; the widest first. A frame can be zoomed into.
import type { Choice } from "./choice";
import { clip, h, name, replace, s, widthOf } from "./dom";
import type { Model, Selection } from "./model";
import { duration, exact, grouped, percent, total, totalUnit } from "./text";
import { kDimensions } from "./types";

const kRow = 22;
const kLeast = 2; // pixels of a frame that is drawn

interface Frame {
  name: string;
  kind: "all" | "function" | "reason" | "device";
  total: number;
  count: number;
  children: Map<string, Frame>;
  parent: Frame | null;
}

export class Flame {
  readonly element = h("section", { id: "flame", "aria-labelledby": "flame-title" });
  private readonly title = h("h2", { id: "flame-title" });
  private readonly path = h("p", { class: "path" });
  private readonly picture = h("div", { class: "picture" });
  private readonly functions = h("div");
  private zoom: string[] = [];
  private selection: Selection | null = null;

  constructor(private readonly model: Model) {
    this.element.append(this.title, this.path, this.picture, this.functions);
    this.guestFunctions();
  }

  private tree(selection: Selection): Frame {
    const root: Frame = { name: "all exits", kind: "all", total: 0, count: 0, children: new Map(), parent: null };
    const { values, combos } = this.model.data;
    const at = { stack: kDimensions.indexOf("stack"), reason: 0, device: kDimensions.indexOf("device") };
    for (const [combo, indices] of combos.entries()) {
      const [count, ns] = [selection.counts[combo]!, selection.totals[combo]!];
      if (count === 0 || this.model.isHalt(combo)) continue;
      const stack = values.stack[indices[at.stack] ?? 0] ?? "";
      const frames: [string, Frame["kind"]][] = stack === "[unknown]" ? [] : stack.split(";").map((f) => [f, "function"]);
      frames.push([values.reason[indices[at.reason] ?? 0] ?? "", "reason"]);
      const device = values.device[indices[at.device] ?? 0] ?? "-";
      if (device !== "-") frames.push([device, "device"]);
      let frame = root;
      for (const [text, kind] of frames) {
        frame.total += ns;
        frame.count += count;
        const key = `${kind}:${text}`;
        let child = frame.children.get(key);
        if (!child) frame.children.set(key, (child = { name: text, kind, total: 0, count: 0, children: new Map(), parent: frame }));
        frame = child;
      }
      frame.total += ns;
      frame.count += count;
    }
    return root;
  }

  render(_choice: Choice, selection: Selection): void {
    this.selection = selection;
    this.draw();
  }

  private draw(focus?: string): void {
    if (!this.selection) return;
    const root = this.tree(this.selection);
    let top = root;
    const kept: string[] = [];
    for (const key of this.zoom) {
      const next = top.children.get(key);
      if (!next) break;
      top = next;
      kept.push(key);
    }
    this.zoom = kept;
    // The end of a way that holds the most time of its own.
    let widest = root;
    let most = -1;
    const look = (frame: Frame): void => {
      let own = frame.total;
      for (const child of frame.children.values()) {
        own -= child.total;
        look(child);
      }
      if (frame !== root && own > most) [widest, most] = [frame, own];
    };
    look(root);
    const known = this.model.data.values.stack.some((stack) => stack !== "[unknown]");
    if (root.total === 0) {
      replace(this.title, "No exit time is in what is chosen");
      replace(this.path);
      replace(this.picture, h("p", { class: "empty" }, "Halts are left out here. Choose another row, or Clear."));
      return;
    }
    const words: string[] = [];
    for (let frame: Frame | null = widest; frame && frame !== root; frame = frame.parent) words.unshift(frame.name);
    replace(this.title, "The busiest way into the host is ", name(clip(words.join(" → "), 70)), `: ${percent(most / root.total)} of the exit time without halts`);
    const steps: Frame[] = [];
    for (let frame: Frame | null = top; frame; frame = frame.parent) steps.unshift(frame);
    replace(this.path, ...steps.flatMap((frame, depth) => [depth ? " › " : "",
      frame === top ? h("strong", {}, name(clip(frame.name, 40)), ` ${duration(frame.total)} in ${grouped(frame.count)} exits`)
        : h("button", { type: "button", class: "link", click: () => { this.zoom = this.zoom.slice(0, depth); this.draw(); } }, clip(frame.name, 40))]),
      !known && h("span", { class: "dim" }, " — guest functions are not known: give --symbols, or record with the plugin"));
    const width = widthOf(this.picture);
    const rows: SVGElement[] = [];
    let deepest = 0;
    const place = (frame: Frame, left: number, size: number, depth: number, keys: string[]): void => {
      if (size < kLeast || depth > 60) return;
      deepest = Math.max(deepest, depth);
      const label = `${frame.name}: ${duration(frame.total)}, ${percent(frame.total / root.total)}, ${frame.count} exits`;
      const go = (): void => { this.zoom = keys; this.draw(keys.join("\n")); };
      const group = s("g", { class: `frame f-${frame.kind}`, tabindex: 0, role: "button", "aria-label": label, "data-frame": keys.join("\n"), click: go,
        keydown: (event) => {
          const key = (event as KeyboardEvent).key;
          if (key === "Enter" || key === " ") { event.preventDefault(); go(); }
          if (key === "Escape" && this.zoom.length) { this.zoom = this.zoom.slice(0, -1); this.draw(this.zoom.join("\n")); }
        } },
        s("title", {}, `${label}\n${exact(frame.total)}`),
        s("rect", { x: left, y: depth * kRow, width: Math.max(1, size - 1), height: kRow - 2 }),
        size > 26 && s("text", { x: left + 4, y: depth * kRow + 14 }, clip(frame.name, Math.floor((size - 8) / 6.6))));
      rows.push(group);
      let next = left;
      for (const [key, child] of [...frame.children].sort((a, b) => b[1].total - a[1].total)) {
        const part = (child.total / Math.max(1, frame.total)) * size;
        place(child, next, part, depth + 1, [...keys, key]);
        next += part;
      }
    };
    place(top, 0, width, 0, this.zoom);
    const svg = s("svg", { class: "flame", width, height: (deepest + 1) * kRow, role: "group", "aria-label": "Exit time by guest stack, reason and device" }, ...rows);
    replace(this.picture, svg, h("p", { class: "dim keys" },
      h("span", { class: "key f-function" }, "guest function"), h("span", { class: "key f-reason" }, "reason of the exit"), h("span", { class: "key f-device" }, "device in QEMU"),
      "width: time in exits; halts are left out; choose a frame to zoom, Escape to go back"));
    if (focus !== undefined) {
      for (const one of svg.querySelectorAll<SVGGElement>("[data-frame]")) if (one.dataset["frame"] === focus) one.focus();
    }
  }

  private guestFunctions(): void {
    const rows = this.model.data.guest_functions;
    if (rows.length === 0) return;
    const head = ["Calls", "Exits", `Own time, ${totalUnit()}`, "guest", "kernel", "user", "preempted", "blocked"];
    const most = Math.max(1, ...rows.map((row) => row.own_ns));
    replace(this.functions, h("h3", {}, "Guest functions by their own time, without callees"),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Guest functions, table" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "function"), ...head.map((text) => h("th", { scope: "col", class: "number" }, text)), h("th", { scope: "col" }, "Own time"))),
        h("tbody", {}, ...rows.slice(0, 25).map((row) => {
          const bar = s("svg", { width: 160, height: 12, role: "img", "aria-label": percent(row.own_ns / most) });
          let left = 0;
          for (const part of ["guest", "kernel", "user", "preempted", "blocked"] as const) {
            const size = (row[`${part}_ns`] / most) * 160;
            bar.append(s("rect", { class: `p-${part}`, x: left, width: size, height: 12 }, s("title", {}, `${part} ${exact(row[`${part}_ns`])}`)));
            left += size;
          }
          const cell = (text: string, title = ""): HTMLElement => h("td", { class: "number", title }, text);
          return h("tr", {}, h("th", { scope: "row" }, name(row.name)), cell(grouped(row.calls)), cell(grouped(row.exits)), cell(total(row.own_ns), exact(row.own_ns)),
            ...(["guest", "kernel", "user", "preempted", "blocked"] as const).map((part) => cell(total(row[`${part}_ns`]), exact(row[`${part}_ns`]))), h("td", {}, bar));
        })))));
  }
}
