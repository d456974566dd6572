// A flame graph: frames as wide as their time, the widest first, callers above. A frame can be zoomed
// into.
import { clip, currentLook, h, name, replace, s, widthOf } from "./dom";
import { counted, duration, exact, percent } from "./text";

const kRow = 22;
const kLeast = 2; // pixels of a frame that is drawn
const kDeepest = 60;

export interface Frame {
  name: string;
  kind: "all" | "function" | "reason" | "device" | "event";
  total: number; // with its children
  count: number; // exits; 0 if the note tells them
  note: string; // said after the time
  children: Map<string, Frame>;
  parent: Frame | null;
}

export function frame(name: string, kind: Frame["kind"], parent: Frame | null): Frame {
  return { name, kind, total: 0, count: 0, note: "", children: new Map(), parent };
}

// Adds a time to the root and to all frames on the way from it. Returns the last of these frames.
export function grow(root: Frame, frames: [string, Frame["kind"]][], ns: number, count = 0): Frame {
  let at = root;
  const add = (): void => {
    at.total += ns;
    at.count += count;
  };
  add();
  for (const [text, kind] of frames) {
    const key = `${kind}:${text}`;
    const found = at.children.get(key) ?? frame(text, kind, at);
    at.children.set(key, found);
    at = found;
    add();
  }
  return at;
}

const noteOf = (one: Frame): string => (one.count ? ` in ${counted(one.count, "exit")}` : one.note);

// The frame with the most time that none of its children has.
export function busiest(root: Frame): { frame: Frame; own: number } {
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

// Its way from the root, without the root.
export function way(of: Frame): string[] {
  const words: string[] = [];
  for (let at: Frame | null = of; at?.parent; at = at.parent) words.unshift(at.name);
  return words;
}

export class FlamePicture {
  readonly path = h("p", { class: "path" });
  readonly element = h("div", { class: "picture" });
  private zoom: string[] = [];
  private root: Frame | null = null;
  private look = -1;

  // `under` stands below the picture; `after` ends the line above it.
  constructor(
    private readonly label: string,
    private readonly after: () => Node | null,
    private readonly under: Node,
  ) {}

  // Does nothing if the picture shows this root already.
  show(root: Frame): void {
    if (this.root === root && this.look === currentLook()) return;
    this.root = root;
    this.look = currentLook();
    this.draw();
  }

  clear(why: string): void {
    this.root = null;
    replace(this.path);
    replace(this.element, h("p", { class: "empty" }, why));
  }

  // The frame that is zoomed into, as far as it is there.
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
        : h("button", { type: "button", class: "link", click: () => { this.zoom = this.zoom.slice(0, depth); this.draw(); } }, clip(one.name, 40))]);
  }

  private draw(focus?: string): void {
    const { root } = this;
    if (!root) return;
    const top = this.top(root);
    replace(this.path, ...this.steps(top), this.after());
    const width = widthOf(this.element);
    const drawn: SVGElement[] = [];
    let deepest = 0;
    const place = (one: Frame, left: number, size: number, depth: number, keys: string[]): void => {
      if (size < kLeast || depth > kDeepest) return;
      deepest = Math.max(deepest, depth);
      drawn.push(this.group(one, root, left, size, depth, keys));
      // Beside the button, whose name is whole: this may be cut.
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
    replace(this.element, svg, this.under);
    if (focus === undefined) return;
    for (const one of svg.querySelectorAll<SVGGElement>("[data-frame]")) if (one.dataset["frame"] === focus) one.focus();
  }

  private group(one: Frame, root: Frame, left: number, size: number, depth: number, keys: string[]): SVGElement {
    const label = `${one.name}: ${duration(one.total)}, ${percent(one.total / Math.max(1, root.total))}${noteOf(one)}`;
    const go = (): void => { this.zoom = keys; this.draw(keys.join("\n")); };
    return s("g", { class: `frame f-${one.kind}`, tabindex: 0, role: "button", "aria-label": label, "data-frame": keys.join("\n"), click: go,
      keydown: (event) => {
        const key = (event as KeyboardEvent).key;
        if (key === "Enter" || key === " ") { event.preventDefault(); go(); }
        if (key === "Escape" && this.zoom.length) { this.zoom = this.zoom.slice(0, -1); this.draw(this.zoom.join("\n")); }
      } },
      s("title", {}, `${label}\n${exact(one.total)}`),
      s("rect", { x: left, y: depth * kRow, width: Math.max(1, size - 1), height: kRow - 2 }));
  }
}
