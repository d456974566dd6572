// Intervals that the guest recorded, and what the host did in each of them: --guest-span.
import { cell, clip, column, first, h, name, number, numbers, section, table, time } from "./dom";
import { partsBar } from "./parts_bar";
import { duration, grouped, moment, percent, quoted } from "./text";
import { kSpanParts, type GuestSpans, type Recording, type SpanParts, type TreeNode } from "./types";

const kRows = 25;
const kCulprits = 20;
const kOfWorst = 3; // culprits beside one of the worst

function bar(parts: SpanParts): SVGSVGElement {
  return partsBar(kSpanParts.map((part) => (part === "not_recorded" ? ["lost", parts.not_recorded_ns, "not recorded"] : [part, parts[`${part}_ns`]])));
}

// The parts of an explained interval, by the names that its tree gives them.
function partsOf(tree: TreeNode): SpanParts {
  const of = (part: string): number => tree.children?.find((child) => child.text === part.replace("_", " "))?.ns ?? 0;
  return Object.fromEntries(kSpanParts.map((part) => [`${part}_ns`, of(part)])) as SpanParts;
}

function culpritsOf(tree: TreeNode): (Node | string)[] {
  const all = (tree.children ?? []).flatMap((part) => (part.children ?? []).map((one) => ({ part: part.text, one }))).sort((a, b) => b.one.ns - a.one.ns);
  if (!all.length) return ["–"];
  const shown = all.slice(0, kOfWorst).flatMap(({ one }, i) => [i ? ", " : "", name(clip(one.text, 50)), ` ${duration(one.ns)}`]);
  return all.length > kOfWorst ? [...shown, `, ${all.length - kOfWorst} more`] : shown;
}

// What the host had of all intervals: the largest part, of waits their largest culprit.
function largest(spans: GuestSpans): string {
  const causes = [
    ...(["kernel", "user"] as const).map((part) => ({ text: part === "user" ? "QEMU" : "the kernel", ns: spans[`${part}_ns`] })),
    ...spans.culprits.map(({ part, culprit, ns }) => ({ text: `${part}, ${culprit}`, ns })),
  ].sort((a, b) => b.ns - a.ns);
  const most = causes[0];
  return most && most.ns > 0 ? `; the largest cause on the host: ${clip(most.text, 60)}, ${percent(most.ns / Math.max(1, spans.total_ns))}` : "; the host took nothing of them, as far as was recorded";
}

function command(data: Recording, spec: string): HTMLElement | null {
  const words = data.command;
  if (words.some((word) => ["--from", "--to", "--phases", "--phase"].includes(word))) return null;
  return h("p", {}, h("code", {}, ["trapline", "explain", ...words.slice(1), "--guest-span", spec, "--worst", "10"].map(quoted).join(" ")));
}

export function guestSpans(data: Recording): HTMLElement[] {
  const spans = data.guest_spans;
  if (!spans) return [];
  const { counters } = spans;
  const counted = ([["restarted", "began again before they ended"], ["end_only", "ends had no begin"], ["open", "never ended"], ["unplaced", "are left out, for their vCPU is not known, or too many overlap"]] as const)
    .filter(([key]) => counters[key] > 0).map(([key, text]) => `${grouped(counters[key])} ${text}`);
  const more = spans.rows.length + spans.rows_left_out - kRows;
  return [section("guest-spans", [`${grouped(spans.count)} intervals of `, name(spans.spec), `: half took at most ${duration(spans.p50_ns)}, the longest ${duration(spans.max_ns)}${largest(spans)}`],
    ...spans.clocks.map((clock) => h("p", { class: "dim" }, "Clock of ", name(clock))),
    table("Guest's intervals, table", [column("Interval"), numbers("Count"), numbers("Total"), numbers("p50"), numbers("p99"), numbers("Max"), column("vCPU's time")],
      spans.rows.slice(0, kRows).map((row) => h("tr", {}, first(row.key ? name(row.key) : "all"), number(grouped(row.count)),
        ...[row.total_ns, row.p50_ns, row.p99_ns, row.max_ns].map(time), cell(bar(row))))),
    more > 0 && h("p", { class: "dim" }, `${grouped(more)} more are in trapline report --by guest-span.`),
    h("p", {}, ...kSpanParts.filter((part) => spans[`${part}_ns`] > 0).flatMap((part) => [
      h("span", { class: `swatch b-${part}`, "aria-hidden": "true" }), `${part.replace("_", " ")} ${percent(spans[`${part}_ns`] / Math.max(1, spans.total_ns))}\u2003`])),
    spans.culprits.length > 0 && h("h3", {}, "Who kept the vCPUs waiting in them"),
    spans.culprits.length > 0 && table("Who kept the vCPUs waiting in the guest's intervals, table", [column("Culprit"), column("while it was"), numbers("Time"), numbers("Share", "% of the intervals"), numbers("Times")],
      [...spans.culprits].sort((a, b) => b.ns - a.ns).slice(0, kCulprits).map((row) => h("tr", {}, first(name(row.culprit)),
        cell(h("span", { class: `swatch b-${row.part}`, "aria-hidden": "true" }), row.part), time(row.ns), number(percent(row.ns / Math.max(1, spans.total_ns)).replace("%", "")), number(grouped(row.count))))),
    h("h3", {}, spans.worst.length === 1 ? "The longest" : `The ${spans.worst.length} longest`),
    table("The longest of the guest's intervals, table", [column("vCPU, interval"), numbers("Began"), numbers("Took"), column("vCPU's time"), column("Waited")],
      spans.worst.map(({ start, tree, sentence, advice, source }) => h("tr", {}, first(name(tree.text), h("small", { title: [advice, source].filter(Boolean).join(" ") }, sentence)),
        number(moment(start, 6)), time(tree.ns), cell(bar(partsOf(tree))), h("td", { class: "wrap" }, ...culpritsOf(tree))))),
    counted.length > 0 && h("p", { class: "dim" }, `Of the intervals ${counted.join("; ")}.`),
    command(data, spans.spec))];
}
