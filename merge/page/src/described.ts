// Tables that come with a description of their columns, those of the report's text: no view of their own.
import { cell, column, first, h, name, number, numbers, section, table, time } from "./dom";
import { duration, grouped, percent } from "./text";
import type { DescribedTable, Recording } from "./types";

const kShown = 25;

function valueOf(unit: string, value: string | number | null): HTMLElement {
  if (typeof value === "string") return cell(name(value));
  if (value === null) return number("–");
  return unit === "duration" ? time(value) : number(unit === "share" ? percent(value) : grouped(value));
}

function tableOf(label: string, { columns, rows, rows_left_out }: DescribedTable, option: string): HTMLElement {
  const left = Math.max(0, rows.length - kShown) + rows_left_out;
  return h("div", {}, table(label, columns.map(({ title, unit }) => (unit === "text" ? column : numbers)(title)),
    rows.slice(0, kShown).map(([key, ...cells]) => h("tr", {}, first(name(String(key))), ...cells.map((value, i) => valueOf(columns[i + 1]?.unit ?? "text", value))))),
    left > 0 && h("p", { class: "dim" }, `${grouped(left)} more rows: ${option ? `trapline report ${option}` : "the command above"} prints them.`));
}

// The kernel's time in exits by what its events tell: report --kernel.
export function kernelTable(data: Recording): HTMLElement[] {
  if (!data.kernel) return [];
  const { total_ns, whose, rows } = data.kernel;
  const most = rows[0];
  return [section("kernel-table", most && total_ns !== null
    ? [name(String(most[0])), ` took ${percent(Number(most[1]) / Math.max(1, total_ns))} of ${whose} ${duration(total_ns)} in exits`]
    : [total_ns === null ? "The kernel's time in exits was not recorded (kvm:kvm_exit)" : "The kernel had no time in exits"],
    ...(most ? [tableOf("The kernel's time in exits, table", data.kernel, "--kernel")] : []))];
}

// Tables that were asked for and have no view of their own.
export function otherTables(data: Recording): HTMLElement[] {
  return data.others.map((table) => {
    const id = `table-${table.key}`;
    return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, `By ${table.columns[0]?.title ?? table.key}`),
      tableOf(`By ${table.columns[0]?.title ?? table.key}, table`, table, ""));
  });
}
