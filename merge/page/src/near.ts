// A zoomable timeline of guest, kernel and QEMU on lanes, with the texts of the events in sight.
import { button, clip, h, name, replace, s, widthOf } from "./dom";
import { duration, exact, grouped, moment } from "./text";
import type { Neighbourhood, WorstExit } from "./types";
import { moved, zoomByKey, zoomByWheel, zoomed, type Range } from "./zoom";

const kLane = 34;
const kLeastLabels = 92;
const kLetter = 7; // px, of a lane's name
const kEvents = 200; // texts in the list
const kLeast = 200; // ns in sight at the deepest zoom

// Returns the next larger 1, 2 or 5 times a power of ten, as a distance of ticks.
function roundStep(least: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((n) => n * size).find((n) => n >= least) ?? least;
}

// `focus` is the exit that is looked at, if one is; times count from its begin, else from the timeline's.
export function nearView(near: Neighbourhood, focus: Pick<WorstExit, "start" | "total_ns"> | null, leave: () => void) {
  const all: Range = [near.from, near.to];
  const origin = focus?.start ?? near.from;
  let view = all;
  let labels = kLeastLabels; // px
  const look = (at: Range): void => {
    view = at;
    show();
  };
  const zoom = {
    zoom: (factor: number, at = 0.5) => look(zoomed(view, factor, at, all, kLeast)),
    move: (part: number) => look(moved(view, part, all)),
    all: () => look(all),
  };
  const picture = h("div", { class: "near", tabindex: 0, role: "application",
    "aria-label": `Timeline${focus ? " around the exit" : ""}: plus and minus zoom, arrows move, 0 shows all`,
    keydown: (event) => {
      if ((event as KeyboardEvent).key === "Escape") leave();
      else if (!zoomByKey(event as KeyboardEvent, zoom)) return;
      event.preventDefault();
    } });
  zoomByWheel(picture, zoom, (left, width) => (left - labels) / (width - labels));
  const act = (text: string, label: string, click: () => void): HTMLElement => button({ "aria-label": label, click }, text);
  const controls = h("div", { class: "controls noprint" },
    act("+", "Zoom in", () => zoom.zoom(0.5)), act("−", "Zoom out", () => zoom.zoom(2)),
    act("◀", "Earlier", () => zoom.move(-0.2)), act("▶", "Later", () => zoom.move(0.2)), act("All", "Show all", zoom.all),
    focus && act("The exit", "Show the exit only", () => look(zoomed([focus.start, focus.start + focus.total_ns], 1.1, 0.5, all, kLeast))),
    h("span", { class: "dim" }, "Ctrl and wheel zoom; or + − ← → in the picture"));
  const list = h("ol", { class: "events", tabindex: 0, "aria-label": "Events in sight" });

  function show(): void {
    lanes();
    events();
  }

  function lanes(): void {
    const width = widthOf(picture);
    const [from, to] = view;
    const longest = near.lanes.reduce((most, text) => Math.max(most, text.length), 0) * kLetter + 8;
    labels = Math.floor(Math.max(Math.min(kLeastLabels, width / 3), Math.min(longest, width / 4)));
    const x = (at: number): number => labels + ((at - from) / Math.max(1, to - from)) * (width - labels);
    const bottom = near.lanes.length * kLane;
    const svg = s("svg", { width, height: bottom + 26, role: "img", "aria-label": `${near.spans.length} spans and ${near.events.length} events on ${near.lanes.length} lanes` });
    const inside = s("svg", { x: labels, width: Math.max(1, width - labels), height: bottom + 26, viewBox: `${labels} 0 ${Math.max(1, width - labels)} ${bottom + 26}` });
    near.lanes.forEach((text, i) => {
      svg.append(s("text", { class: "lane", x: 0, y: i * kLane + 20 }, clip(text, Math.floor((labels - 4) / kLetter)), s("title", {}, text)));
      inside.append(s("rect", { class: "lane", x: labels, y: i * kLane + 2, width: width - labels, height: kLane - 4 }));
    });
    if (focus) inside.append(s("rect", { class: "focus", x: x(focus.start), width: Math.max(1, x(focus.start + focus.total_ns) - x(focus.start)), height: bottom }));
    for (const [lane, begin, end, kind, text] of near.spans) {
      if (end < from || begin > to) continue;
      const left = Math.max(labels - 2, x(begin));
      const size = Math.min(width + 2, x(end)) - left;
      inside.append(s("rect", { class: `p-${kind}`, x: left, y: lane * kLane + 5, width: Math.max(1, size), height: kLane - 16 }, s("title", {}, `${text}: ${exact(end - begin)}`)));
      if (size > 40) inside.append(s("text", { class: `on-${kind}`, x: left + 4, y: lane * kLane + 18 }, clip(text, Math.floor((size - 6) / 6.6))));
    }
    for (const [lane, at, text] of near.events) {
      if (at < from || at > to) continue;
      inside.append(s("path", { class: "event", d: `M${x(at).toFixed(1)} ${lane * kLane + kLane - 10}v7` }, s("title", {}, `${relative(at)} ${text}`)));
    }
    ticks(inside, x, width, bottom);
    svg.append(inside);
    replace(picture, svg);
  }

  function ticks(inside: SVGSVGElement, x: (at: number) => number, width: number, y: number): void {
    const [from, to] = view;
    const step = roundStep((to - from) / Math.max(2, Math.floor((width - labels) / 120)));
    for (let at = Math.ceil((from - origin) / step) * step; at <= to - origin; at += step) {
      const left = x(at + origin);
      inside.append(s("path", { class: "tick", d: `M${left.toFixed(1)} ${y}v4` }),
        s("text", { x: left, y: y + 17, "text-anchor": left > width - 40 ? "end" : left < labels + 20 ? "start" : "middle" }, at === 0 ? "0" : relative(at + origin)));
    }
  }

  const relative = (at: number): string => `${at < origin ? "−" : "+"}${duration(Math.abs(at - origin))}`;

  const within = (at: number): boolean => focus !== null && at >= focus.start && at <= focus.start + focus.total_ns;

  function events(): void {
    // Columns as wide as their longest text: a name is in one piece.
    const widest = (texts: string[]): string => `${Math.min(32, texts.reduce((most, text) => Math.max(most, text.length), 4))}ch`;
    list.style.setProperty("--whose", widest(near.events.map(([, , , whose]) => whose)));
    list.style.setProperty("--tag", widest(near.lanes));
    const seen = near.events.filter(([, at]) => at >= view[0] && at <= view[1]);
    replace(list, ...seen.slice(0, kEvents).map(([lane, at, text, whose]) =>
      h("li", { class: within(at) ? "within" : "" },
        h("span", { class: "number at", title: moment(at, 9) }, relative(at)), h("span", { class: "whose", title: whose }, clip(whose, 32)),
        h("span", { class: "tag" }, near.lanes[lane] ?? ""), name(text))),
      seen.length > kEvents && h("li", {}, `${grouped(seen.length - kEvents)} more in sight: zoom in.`),
      near.left_out > 0 && h("li", { class: "left-out" }, `${grouped(near.left_out)} events and spans of this time are not on the page; the command above prints them.`));
    // Scrolls to the events of the exit, with two lines of those before it in sight.
    let top: Element | null = list.querySelector(".within");
    for (let lines = 0; top?.previousElementSibling && lines < 2; ++lines) top = top.previousElementSibling;
    if (top) list.scrollTop = (top as HTMLElement).offsetTop - list.offsetTop;
  }

  return { elements: [controls, picture, list], show };
}
