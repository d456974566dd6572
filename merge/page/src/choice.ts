// The reader's choice. The address's fragment holds all of it, so that a link says what it shows.

import { kLatencyBins } from "./model";
import { kColumns } from "./table";
import type { Recording } from "./types";

export interface Filter {
  by: string; // dimensions with commas
  key: string; // their values joined by " / "
}

type Bins = [from: number, to: number]; // the second not included

export const kStart = {
  by: "reason,device",
  sort: "share",
  up: false, // ascending
  query: "",
  rows: [] as Filter[], // at most one of each `by`
  time: null as Bins | null,
  latency: null as Bins | null, // latency bins
  worst: null as number | null,
  all: false, // every row of the table
  busy: null as boolean | null, // the vCPUs' time without halts; null: as the page begins
  view: null as Bins | null, // bins in sight; null: from the VM's begin
  zoom: {} as Record<string, string[]>, // of each flame graph the way to the frame that it shows
};
export type Choice = typeof kStart;
export type Change = (change: Partial<Choice>) => void;
// The parts that Escape and Clear take back.
export const kNothing: Partial<Choice> = { query: "", rows: [], time: null, latency: null, view: null, zoom: {} };

type Read = (texts: string[], data: Recording) => Partial<Choice>;
// A name in the fragment, the texts that it has there, and the part of a choice that they say. `read` leaves out
// dimensions, bins and exits that this page does not have.
type Word = [name: string, write: (choice: Choice) => (string | false)[], read: Read];

const has = ({ sets }: Recording, dimensions: string | undefined): boolean => sets.some(({ by }) => by === dimensions);

type Ranges = "time" | "latency" | "view";
const bins = (part: Ranges): Word => [part, (choice) => [choice[part]?.join("-") ?? ""], ([text = ""], data) => {
  const most = part === "latency" ? kLatencyBins : data.time.bins;
  const [, from, to] = /^(\d{1,6})-(\d{1,6})$/.exec(text) ?? [];
  const range: Bins = [Math.min(Number(from), most - 1), Math.min(Number(to), most)];
  return { [part]: range[0] < range[1] ? range : null };
}];

const kWords: Word[] = [
  ["by", ({ by }) => [by !== kStart.by && by],
    ([by], data) => ({ by: [by, kStart.by].find((one) => has(data, one)) ?? data.sets[0]?.by ?? "reason" })],
  ["sort", ({ sort, up }) => [(up || sort !== kStart.sort) && (up ? "-" : "") + sort], ([text = ""]) => {
    const sort = text.replace(/^-/, "");
    return kColumns.some(([id]) => id === sort) ? { sort, up: sort !== text } : {};
  }],
  ["find", ({ query }) => [query], ([query = ""]) => ({ query })],
  ["row", ({ rows }) => rows.map(({ by, key }) => `${by}=${key}`), (texts, data) => {
    const rows = texts.map((text) => [text, text.indexOf("=")] as const)
      .map(([text, cut]) => ({ by: text.slice(0, cut), key: text.slice(cut + 1) }));
    return { rows: rows.filter(({ by }, i) => has(data, by) && rows.findIndex((one) => one.by === by) === i) };
  }],
  bins("time"), bins("latency"), bins("view"),
  ["zoom", ({ zoom }) => Object.entries(zoom).map(([picture, keys]) => keys.length > 0 && [picture, ...keys].join("\n")),
    (texts) => ({ zoom: Object.fromEntries(texts.map((text) => text.split("\n")).map(([of, ...keys]) => [of, keys])) })],
  ["exit", ({ worst }) => [worst !== null && String(worst)],
    ([text = ""], { worst }) => ({ worst: /^\d{1,4}$/.test(text) && Number(text) < worst.length ? Number(text) : null })],
  ["all", ({ all }) => [all && "1"], ([text]) => ({ all: text === "1" })],
  ["busy", ({ busy }) => [busy !== null && (busy ? "1" : "0")],
    ([text = ""]) => ({ busy: ["0", "1"].includes(text) ? text === "1" : null })],
];

export function toFragment(choice: Choice): string {
  const words = kWords.flatMap(([name, write]) => write(choice).map((text) => [name, text || ""]));
  return new URLSearchParams(words.filter(([, text]) => text)).toString();
}

export function fromFragment(fragment: string, data: Recording): Choice {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  return Object.assign({ ...kStart }, ...kWords.map(([name, , read]) => read(words.getAll(name), data)));
}
