// The reader's choice. The address's fragment holds all of it, so that a link says what it shows.

import { kLatencyBins } from "./model";
import type { Recording } from "./types";

export interface Filter {
  by: string; // dimensions with commas
  key: string; // their values joined by " / "
}

export interface Choice {
  by: string;
  sort: string;
  up: boolean; // ascending
  query: string;
  rows: Filter[]; // at most one of each `by`
  time: [number, number] | null; // bins, the second not included
  latency: [number, number] | null; // latency bins, likewise
  worst: number | null;
  all: boolean; // every row of the table
  busy: boolean | null; // the vCPUs' time without halts; null: as the page begins
  view: [number, number] | null; // bins in sight; null: from the VM's begin
  zoom: Record<string, string[]>; // of each flame graph the way to the frame that it shows
}

export const kStart: Choice = {
  by: "reason,device",
  sort: "share",
  up: false,
  query: "",
  rows: [],
  time: null,
  latency: null,
  worst: null,
  all: false,
  busy: null,
  view: null,
  zoom: {},
};
// The parts that Escape and Clear take back.
export const kNothing: Partial<Choice> = { query: "", rows: [], time: null, latency: null, view: null, zoom: {} };

function pair(text: string | null, most: number): [number, number] | null {
  const match = /^(\d{1,6})-(\d{1,6})$/.exec(text ?? "");
  if (!match) return null;
  const from = Math.min(Number(match[1]), most - 1);
  const to = Math.min(Number(match[2]), most);
  return from < to ? [from, to] : null;
}

export function toFragment(choice: Choice): string {
  const words = new URLSearchParams();
  if (choice.by !== kStart.by) words.set("by", choice.by);
  if (choice.sort !== kStart.sort || choice.up) words.set("sort", (choice.up ? "-" : "") + choice.sort);
  if (choice.query) words.set("find", choice.query);
  for (const row of choice.rows) words.append("row", `${row.by}=${row.key}`);
  if (choice.time) words.set("time", choice.time.join("-"));
  if (choice.latency) words.set("latency", choice.latency.join("-"));
  if (choice.view) words.set("view", choice.view.join("-"));
  for (const [picture, keys] of Object.entries(choice.zoom)) if (keys.length) words.append("zoom", [picture, ...keys].join("\n"));
  if (choice.worst !== null) words.set("exit", String(choice.worst));
  if (choice.all) words.set("all", "1");
  if (choice.busy !== null) words.set("busy", choice.busy ? "1" : "0");
  return words.toString();
}

// Returns the choice in the address, less the dimensions, bins and exits that this page does not have.
export function fromFragment(fragment: string, data: Recording, sorts: string[]): Choice {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const choice: Choice = { ...kStart, rows: [] };
  const dimensions = data.sets.map(({ by }) => by);
  choice.by = [words.get("by"), kStart.by].find((by): by is string => by !== null && dimensions.includes(by)) ?? dimensions[0] ?? "reason";
  const sort = words.get("sort") ?? "";
  if (sorts.includes(sort.replace(/^-/, ""))) {
    choice.up = sort.startsWith("-");
    choice.sort = sort.replace(/^-/, "");
  }
  choice.query = words.get("find") ?? "";
  for (const text of words.getAll("row")) {
    const cut = text.indexOf("=");
    const row = { by: text.slice(0, cut), key: text.slice(cut + 1) };
    if (dimensions.includes(row.by) && !choice.rows.some((r) => r.by === row.by)) choice.rows.push(row);
  }
  choice.time = pair(words.get("time"), data.time.bins);
  choice.latency = pair(words.get("latency"), kLatencyBins);
  choice.view = pair(words.get("view"), data.time.bins);
  choice.zoom = Object.fromEntries(words.getAll("zoom").map((text) => text.split("\n")).map(([picture = "", ...keys]) => [picture, keys]));
  const worst = /^\d{1,4}$/.exec(words.get("exit") ?? "");
  if (worst && Number(worst[0]) < data.worst.length) choice.worst = Number(worst[0]);
  choice.all = words.get("all") === "1";
  const busy = words.get("busy");
  if (busy === "1" || busy === "0") choice.busy = busy === "1";
  return choice;
}
