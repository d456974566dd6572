// The longest exits, and what happened around one: guest, kernel and QEMU on one zoomable timeline.
import type { Choice } from "./choice";
import { clip, h, name, replace, s, widthOf } from "./dom";
import { low, type Model } from "./model";
import type { Change } from "./shares";
import { partsBar } from "./table";
import { duration, exact, grouped, moment, momentOption, quoted, single, singleUnit, without } from "./text";
import { kParts, type Neighbourhood, type WorstExit } from "./types";

const kLane = 34;
const kLabels = 92;
const kShown = 20;

export class Worst {
  readonly element = h("section", { id: "worst", "aria-labelledby": "worst-title" });
  private readonly title = h("h2", { id: "worst-title" });
  private readonly body = h("tbody");
  private readonly under = h("p", { class: "dim" });
  private readonly panel = h("div", { id: "exit", class: "panel", hidden: true });
  private view: [number, number] = [0, 1];
  private shown: number | null = null;

  constructor(
    private readonly model: Model,
    private readonly change: Change,
  ) {
    const heads = ["Began", "Took", "Parts", "vCPU", "Reason", "Detail", "Device", "Guest function", "Ran instead"];
    this.element.append(this.title,
      h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Longest exits, table" }, h("table", {},
        h("thead", {}, h("tr", {}, ...heads.map((text, i) => h("th", { scope: "col", class: i < 2 ? "number" : "" }, text, i === 1 && h("small", {}, singleUnit()))))),
        this.body)), this.under, this.panel);
  }

  private value(exit: WorstExit, dimension: string): string {
    if (dimension === "reason" || dimension === "detail" || dimension === "device" || dimension === "function" || dimension === "vcpu") return exit[dimension];
    return "";
  }

  private fits(exit: WorstExit, choice: Choice): boolean {
    const bin = this.model.binAt(exit.start);
    if (choice.time && (bin < choice.time[0] || bin >= choice.time[1])) return false;
    if (choice.latency && (exit.total_ns < low(choice.latency[0]) || exit.total_ns >= low(choice.latency[1]))) return false;
    return choice.rows.every((row) => {
      const keys = row.by.split(",").map((d) => this.value(exit, d)).join(" / ");
      return keys === row.key || (row.by === "detail" && row.key === "page-fault" && keys.startsWith("page-fault")) || row.by.includes("qemu-event");
    });
  }

  render(choice: Choice): void {
    const { worst } = this.model.data;
    const fitting = worst.map((exit, i) => [exit, i] as const).filter(([exit]) => this.fits(exit, choice));
    const first = fitting[0]?.[0];
    replace(this.title, ...(first
      ? [`The longest exit${fitting.length < worst.length ? " of these" : ""} took ${duration(first.total_ns)}: `, name(first.reason),
        first.detail !== "-" && `, ${clip(first.detail, 40)}`, first.device !== "-" && `, ${clip(first.device, 40)}`]
      : ["None of the longest exits is in what is chosen"]));
    const shown = fitting.slice(0, choice.all ? undefined : kShown);
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.["exit"];
    replace(this.body, ...shown.map(([exit, i]) => this.row(exit, i, choice)));
    if (focused !== undefined) this.body.querySelector<HTMLElement>(`[data-exit="${Number(focused)}"]`)?.focus();
    this.under.textContent = worst.length === 0 ? "The recording has no exits but halts."
      : `${shown.length} of ${worst.length} that are kept: the longest, and the longest of each row above; halts are left out. Choose one to see what happened around it.`;
    this.open(choice.worst);
  }

  private row(exit: WorstExit, at: number, choice: Choice): HTMLElement {
    const chosen = choice.worst === at;
    const choose = (): void => this.change({ worst: chosen ? null : at });
    return h("tr", { class: chosen ? "chosen" : "", click: (event) => { if (!(event.target as Element).closest("button")) choose(); } },
      h("th", { scope: "row", class: "number" }, h("button", { type: "button", "data-exit": at, "aria-expanded": String(chosen), "aria-controls": "exit", click: choose },
        h("span", { class: "sign", "aria-hidden": "true" }, chosen ? "▼ " : "▶ "), moment(exit.start))),
      h("td", { class: "number", title: exact(exit.total_ns) }, single(exit.total_ns)), h("td", {}, partsBar(exit, exit.total_ns)),
      h("td", {}, exit.vcpu), h("td", {}, name(exit.reason)), h("td", {}, name(exit.detail)), h("td", {}, name(exit.device)), h("td", {}, name(exit.function)), h("td", {}, name(exit.preempted_by)));
  }

  private open(at: number | null): void {
    const exit = at === null ? undefined : this.model.data.worst[at];
    this.panel.hidden = !exit;
    if (!exit || at === null) {
      this.shown = null;
      return;
    }
    const near = exit.neighbourhood === null ? undefined : this.model.data.neighbourhoods[exit.neighbourhood];
    if (this.shown !== at && near) this.view = [near.from, near.to];
    this.shown = at;
    this.draw(exit, near);
  }

  private draw(exit: WorstExit, near: Neighbourhood | undefined): void {
    const context = Math.max(20_000, Math.floor(exit.total_ns / 4));
    const { command: report, interval } = this.model.data;
    const command = ["trapline", "timeline", ...without(report.slice(1), "--from", "--to"), "--from", momentOption(interval.start_ns, exit.start - context), "--to", momentOption(interval.start_ns, exit.start + exit.total_ns + context)];
    const parts = kParts.filter((p) => exit[`${p}_ns`] > 0).map((p) => `${p === "user" ? "QEMU" : p} ${duration(exit[`${p}_ns`])}`);
    const heading = h("h3", {}, `${duration(exit.total_ns)} at ${moment(exit.start)}: ${parts.join(", ")}`);
    const how = h("p", { class: "dim" }, exit.preempted_by !== "-" ? `While it was off the CPU, ${exit.preempted_by} ran. ` : "", h("code", {}, command.map(quoted).join(" ")));
    if (!near) {
      replace(this.panel, heading, h("p", { class: "empty" }, "The events around this exit are not on the page: the command below prints them."), how);
      return;
    }
    const picture = h("div", { class: "near", tabindex: 0, role: "application", "aria-label": "Timeline around the exit: plus and minus zoom, arrows move, 0 shows all" });
    const list = h("ol", { class: "events", tabindex: 0, "aria-label": "Events in sight" });
    const show = (): void => {
      this.lanes(picture, near, exit);
      this.events(list, near, exit);
    };
    const zoom = (factor: number, at = 0.5): void => {
      const [from, to] = this.view;
      const centre = from + (to - from) * at;
      const size = Math.min(near.to - near.from, Math.max(200, (to - from) * factor));
      this.pan(near, centre - size * at, size);
      show();
    };
    const move = (part: number): void => {
      const size = this.view[1] - this.view[0];
      this.pan(near, this.view[0] + size * part, size);
      show();
    };
    picture.addEventListener("keydown", (event) => {
      const actions: Record<string, () => void> = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "0": () => zoom(1e9), Escape: () => this.change({ worst: null }) };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const box = picture.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.4 : 0.7, Math.max(0, Math.min(1, (event.clientX - box.left - kLabels) / (box.width - kLabels))));
    }, { passive: false });
    const button = (text: string, label: string, act: () => void): HTMLElement => h("button", { type: "button", "aria-label": label, click: act }, text);
    replace(this.panel, heading, how, h("div", { class: "controls noprint" },
      button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("◀", "Earlier", () => move(-0.2)), button("▶", "Later", () => move(0.2)),
      button("All", "Show all", () => zoom(1e9)), button("The exit", "Show the exit only", () => { this.pan(near, exit.start - exit.total_ns * 0.05, exit.total_ns * 1.1); show(); }),
      h("span", { class: "dim" }, "Ctrl and wheel zoom; or + − ← → in the picture")), picture, list);
    show();
  }

  private pan(near: Neighbourhood, from: number, size: number): void {
    const begin = Math.max(near.from, Math.min(from, near.to - size));
    this.view = [begin, Math.min(near.to, begin + size)];
  }

  private lanes(picture: HTMLElement, near: Neighbourhood, exit: WorstExit): void {
    const width = widthOf(picture);
    const [from, to] = this.view;
    const x = (at: number): number => kLabels + ((at - from) / Math.max(1, to - from)) * (width - kLabels);
    const height = near.lanes.length * kLane + 26;
    const svg = s("svg", { width, height, role: "img", "aria-label": `${near.spans.length} spans and ${near.events.length} events on ${near.lanes.length} lanes` });
    const inside = s("svg", { x: kLabels, width: Math.max(1, width - kLabels), height, viewBox: `${kLabels} 0 ${Math.max(1, width - kLabels)} ${height}` });
    near.lanes.forEach((text, i) => {
      svg.append(s("text", { class: "lane", x: 0, y: i * kLane + 20 }, clip(text, 14), s("title", {}, text)));
      inside.append(s("rect", { class: "lane", x: kLabels, y: i * kLane + 2, width: width - kLabels, height: kLane - 4 }));
    });
    inside.append(s("rect", { class: "focus", x: x(exit.start), width: Math.max(1, x(exit.start + exit.total_ns) - x(exit.start)), height: near.lanes.length * kLane }));
    for (const [lane, begin, end, kind, text] of near.spans) {
      if (end < from || begin > to) continue;
      const left = Math.max(kLabels - 2, x(begin));
      const size = Math.min(width + 2, x(end)) - left;
      inside.append(s("rect", { class: `p-${kind}`, x: left, y: lane * kLane + 5, width: Math.max(1, size), height: kLane - 16 }, s("title", {}, `${text}: ${exact(end - begin)}`)));
      if (size > 40) inside.append(s("text", { class: `on-${kind}`, x: left + 4, y: lane * kLane + 18 }, clip(text, Math.floor((size - 6) / 6.6))));
    }
    for (const [lane, at, text] of near.events) {
      if (at < from || at > to) continue;
      inside.append(s("path", { class: "event", d: `M${x(at).toFixed(1)} ${lane * kLane + kLane - 10}v7` }, s("title", {}, `${this.relative(at, exit)} ${text}`)));
    }
    const raw = (to - from) / Math.max(2, Math.floor((width - kLabels) / 120));
    const size = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
    const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n >= raw) ?? raw;
    const y = near.lanes.length * kLane;
    for (let at = Math.ceil((from - exit.start) / step) * step; at <= to - exit.start; at += step) {
      const left = x(at + exit.start);
      inside.append(s("path", { class: "tick", d: `M${left.toFixed(1)} ${y}v4` }),
        s("text", { x: left, y: y + 17, "text-anchor": left > width - 40 ? "end" : left < kLabels + 20 ? "start" : "middle" }, at === 0 ? "0" : (at < 0 ? "−" : "+") + duration(Math.abs(at))));
    }
    svg.append(inside);
    replace(picture, svg);
  }

  private relative(at: number, exit: WorstExit): string {
    const ns = at - exit.start;
    return `${ns < 0 ? "−" : "+"}${duration(Math.abs(ns))}`;
  }

  private events(list: HTMLElement, near: Neighbourhood, exit: WorstExit): void {
    const seen = near.events.filter(([, at]) => at >= this.view[0] && at <= this.view[1]);
    replace(list, ...seen.slice(0, 200).map(([lane, at, text, whose]) =>
      h("li", { class: at >= exit.start && at <= exit.start + exit.total_ns ? "within" : "" },
        h("span", { class: "number at", title: moment(at, 9) }, this.relative(at, exit)), h("span", { class: "whose" }, clip(whose, 18)),
        h("span", { class: `tag t-${near.lanes[lane] ?? ""}` }, near.lanes[lane] ?? ""), name(text))),
      seen.length > 200 && h("li", {}, `${grouped(seen.length - 200)} more in sight: zoom in.`),
      near.left_out > 0 && h("li", { class: "left-out" }, `${grouped(near.left_out)} events and spans of this neighbourhood are not on the page; the command above prints them.`));
    const first = list.querySelector<HTMLElement>(".within");
    if (first) list.scrollTop = Math.max(0, first.offsetTop - list.offsetTop - 50);
  }
}
