// The title, and the answer in a sentence with what was lost beside it, for the page's top; what was recorded, and what
// the page leaves out, for its end.
import type { Choice } from "./choice";
import { button, h, name, replace, section } from "./dom";
import type { View } from "./drawing";
import { knowsDurations, knowsGuest, theVcpus } from "./known";
import type { Model, Selection } from "./model";
import { rowsTable } from "./rows";
import { busyOf, sums } from "./strip";
import { counted, duration, exact, grouped, kUnknown, percent } from "./text";
import type { Recording } from "./types";

// The sentences that the report's text begins with. A label like "LOST:" marks a sentence on what is missing.
const sentences = ({ above }: Recording): [label: string, text: string][] => above.flatMap((label, i): [string, string][] => (i % 2 ? [] : [[label, above[i + 1] ?? ""]]));
const kMissing = /^[A-Z ]+:$/;
const kUserEnds: Record<string, string> = { ioctl: "User time ends at the system call back into KVM",
  reload: "User time ends at KVM's next event, as sys_enter_ioctl was not recorded",
  entry: "User time ends at kvm_entry, as no earlier event of KVM was recorded",
  none: "When user time ends was not recorded",
};

// Returns the sentences on what is missing. `side`: "before" or "after", in a comparison.
export function losses(data: Recording, side = ""): HTMLElement[] {
  const left = data.tables.lost?.left_out ?? 0;
  return sentences(data).filter(([label]) => kMissing.test(label)).map(([label, text]) => h("p", { class: "alert", role: "note" }, side && `${side}: `, h("strong", {}, label), ` ${text} `,
    label === "LOST:" && h("span", { class: "hatch", title: `as they are in the pictures${left > 0 ? `; ${grouped(left)} of the shortest are not drawn` : ""}` })));
}

// Makes a link of "(see the notes)": the notes are folded away at the page's end.
function linked(text: string): (string | HTMLElement)[] {
  const [before, after] = text.split("see the notes");
  if (after === undefined) return [text];
  const click = (): void => {
    const notes = document.querySelector<HTMLDetailsElement>("#recorded details");
    if (notes) [notes.open, notes.tabIndex] = [true, -1];
    notes?.focus();
  };
  return [before!, button({ class: "link", click }, "see the notes"), after];
}

// Makes the button for the theme. The page stores nothing: the theme lasts as long as the page.
function themeButton(redraw: () => void): HTMLElement {
  const root = document.documentElement;
  const dark = (): boolean => root.dataset.theme === "dark" || (root.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  const label = (): void => { toggle.textContent = dark() ? "Light" : "Dark"; };
  const toggle = button({ id: "theme", click: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    label();
    redraw();
  } });
  label();
  return toggle;
}

// Calls `changed` whenever the width of the element changes.
export function onWidth(element: HTMLElement, changed: () => void): void {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    changed();
  }).observe(element);
}

export const status = (): HTMLElement => h("span", { role: "status", class: "dim" });

export async function copy(text: string, said: HTMLElement): Promise<void> {
  said.textContent = await navigator.clipboard.writeText(text).then(() => "copied", () => "the browser refused: select the command and copy it");
}

// Makes the head of the page: the title, and the buttons that concern the whole page.
export function header(title: (Node | string)[], command: () => string, redraw: () => void, said = status(), ...more: HTMLElement[]): HTMLElement {
  return h("header", {}, h("h1", {}, ...title), h("div", { class: "actions noprint" },
    button({ id: "copy", click: () => void copy(command(), said) }, "Copy command"), ...more, themeButton(redraw), said));
}

// The report's finding; for a choice, a sentence with the same figures but without a culprit.
export function answer(model: Model): View {
  const { data } = model;
  const said = h("div");

  function draw(choice: Choice, selection: Selection): void {
    const part = choice.rows.length > 0 || choice.latency !== null;
    const texts = part || choice.time ? [chosen(choice, selection, part)] : sentences(data).filter(([label]) => !kMissing.test(label)).map((words) => words.join(" ").trim());
    replace(said, ...texts.map((text, i) => h("p", { class: i ? "" : "finding" }, ...linked(text))));
  }

  function chosen({ time }: Choice, { count, cost }: Selection, part: boolean): string {
    const all = sums(data.vcpus, time);
    const busy = busyOf(all);
    const exits = part ? `the ${counted(count, "chosen exit")}` : counted(count, "exit");
    if (!knowsDurations(data) || !knowsGuest(data) || busy === 0) return `In what is chosen: ${exits}.`;
    const share = (ns: number): string => percent(ns / busy);
    return `${time ? "In the chosen interval" : "In the whole recording"} ${theVcpus(data)} ${data.vcpus.length === 1 ? "was" : "were"} busy for ${duration(busy)}${all.preempted > 0 ? " (waits for a CPU included)" : ""}${all.halted > 0 ? ` and halted for ${duration(all.halted)}` : ""}. ` +
      `Of the busy time the guest ran ${share(all.guest)}; ${exits} cost ${share(cost)}${all.preempted > 0 ? `; for ${share(all.preempted)} ${theVcpus(data)} waited for a CPU` : ""}.`;
  }

  return { element: h("div", { id: "answer" }, said, ...losses(data)), draw };
}

// Makes the folded section of the duration, sources with their clocks, notes, and what the page does not hold.
export function recorded(data: Recording, side = ""): HTMLElement {
  const { sources = { rows: [] }, recorded: session } = data.tables;
  const exits = data.counters.exits;
  const events = sources.rows.reduce((n, source) => n + source.events, 0);
  const facts: [string, string][] = [["Duration", duration(data.duration_ns)], ["Events", grouped(events)], ["Exits", typeof exits === "number" ? grouped(exits) : kUnknown],
    ...(session?.rows ?? []).map(({ name: term, value }): [string, string] => [term, value])];
  const notes = data.notes.filter((note) => !data.above.includes(note));
  const list = (texts: string[]): HTMLElement => h("ul", { class: "notes" }, ...texts.map((text) => h("li", {}, text)));
  return section(side ? `recorded-${side}` : "recorded", [side && `${side}: `, `${typeof exits === "number" ? counted(exits, "VM exit") : "VM exits, not counted,"} of ${counted(data.vcpus.length, "vCPU")} in ${duration(data.duration_ns)}`],
    h("details", {}, h("summary", {}, "How it was recorded, notes, and what this page does not hold"),
      h("dl", { class: "facts" }, ...facts.map(([term, text]) => h("div", {}, h("dt", {}, term), h("dd", {}, name(text))))),
      losses(data).length === 0 && h("p", { class: "good" }, h("span", { "aria-hidden": "true" }, "✓ "), "No events were lost."),
      rowsTable("Sources", [["Source", "name", "path"], ["Kind", "name", "kind"],
        ["Clock", "node", ({ clock, resolution_ns }) => [name(clock), resolution_ns !== null && `, resolution ${exact(resolution_ns)}`]], ["Aligned by", "node", ({ method }) => h("td", { class: "wrap" }, name(method))],
        ["Offset", "node", ({ offset_ns }) => `${offset_ns} ns`], ["Error at most", "node", ({ error_ns }) => (error_ns === null ? h("strong", {}, "not known") : error_ns === "0" ? "0: same clock" : `± ${exact(Number(error_ns))}`)],
        ["Events", "count", "events"], ["Lost", "count", "lost"]], sources.rows),
      notes.length > 0 && list(notes), h("h3", {}, "What this page does not hold"), h("div", { id: side ? `left-out-${side}` : "left-out" }, list([...data.left_out,
        `${kUserEnds[data.user_end] ?? kUnknown}. Time bins are ${duration(data.time.bin_ns)} long; figures of a chosen interval count the exits that began in its bins.`]))));
}
