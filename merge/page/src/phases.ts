// The boot by phases: how long each lasted, and what its time went to. A phase can be chosen as the
// interval.
import type { Change, Choice } from "./choice";
import { clip, dim, h, name, section } from "./dom";
import type { View } from "./drawing";
import type { Model } from "./model";
import { drawRows, emptyTable, partsBar, type Column } from "./rows";
import { duration } from "./text";
import { kStates, type Fields, type Rows } from "./types";

const most = (key: string) => (phase: Fields): (Node | string)[] => {
  const first = (phase[key] as Fields[]).find((one) => one.name !== null);
  return first ? [name(clip(first.name, 40)), ` ${duration(first.total_ns)}`] : ["–"];
};
const kColumns: Column[] = [["Phase", "node", (phase) => [name(phase.name), phase.pattern !== null && phase.pattern !== phase.name && h("small", {}, "from ", name(clip(phase.pattern, 60)))]],
  ["Began", "moment", "start"], ["Took", "time", "ns"], ["Exits", "count", "exits"], ["vCPUs' time", "node", (phase) => partsBar(phase, kStates)],
  ["Most exit time, by device", "node", most("devices")], ["by guest function", "node", most("functions")]];

export function phases(model: Model, change: Change, { rows, never }: Rows): View {
  const table = emptyTable("Phases");
  const longest = [...rows].sort((a, b) => b.ns - a.ns)[0];
  const element = section("phases", longest ? ["The longest phase, ", name(clip(longest.name, 50)), `, took ${duration(longest.ns)} of ${duration(model.data.duration_ns)}`] : ["No phase began"],
    table, dim("An exit belongs to the phase in which it began. Choose a phase to see its interval, rounded to time bins, in the other views.",
      never.length > 0 && ` These did not begin: ${never.join("; ")}.`));
  const draw = (choice: Choice): void => drawRows(table, kColumns, rows, ({ start, ns }, i) => {
    const first = model.binAt(start);
    const bins: [number, number] = [first, Math.max(first, model.binAt(start + Math.max(0, ns - 1))) + 1];
    const chosen = choice.time?.join() === bins.join();
    return { key: String(i), chosen, choose: () => change({ time: chosen ? null : bins }) };
  });
  return { element, draw };
}
