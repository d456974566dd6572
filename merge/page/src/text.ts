// Numbers, times and names as the page shows them.

// Stands for what the recording cannot tell.
export const kUnknown = "–";

let cycles = false;
export function useUnit(unit: "ns" | "cycles"): void {
  cycles = unit === "cycles";
}

// Puts commas into whole digits: "12,345". Intl would take a hundred times as long, and a frame of
// brushing formats a thousand numbers.
function commas(digits: string): string {
  let text = digits;
  for (let at = digits.length - 3; at > (digits[0] === "-" ? 1 : 0); at -= 3) text = `${text.slice(0, at)},${text.slice(at)}`;
  return text;
}

// Formats three significant digits, with the thousands grouped.
export function sig3(value: number): string {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(3));
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded))));
  const text = rounded.toFixed(Math.min(digits, 6));
  const point = text.indexOf(".");
  return point < 0 ? commas(text) : commas(text.slice(0, point)) + text.slice(point);
}

export function grouped(value: number): string {
  return Number.isSafeInteger(value) ? commas(String(value)) : value.toLocaleString("en-US");
}

// Returns "1 exit", "12,345 exits".
export function counted(count: number, one: string): string {
  return `${grouped(count)} ${one}${count === 1 ? "" : "s"}`;
}

// Returns the exact figure, for hover and copy.
export function exact(ns: number | null): string {
  if (ns === null) return kUnknown;
  return `${grouped(ns)} ${cycles ? "cycles" : "ns"}`;
}

// Rounds exactly half of the last digit to the even digit, as the report's text does: 41.25 to 41.2.
function fixed(value: number, digits: number): string {
  const half = (value * 2 ** (digits + 1)) % 2 === 1;
  const even = Math.floor(value * 10 ** digits) % 2 === 0;
  return (half && even ? value - 0.25 / 10 ** digits : value).toFixed(digits);
}

// Formats a duration in the unit that suits it, as the report's text does: "1.84 s", "112 µs".
export function duration(ns: number | null): string {
  if (ns === null) return kUnknown;
  const units: [number, string][] = cycles
    ? [[1e9, "Gcyc"], [1e6, "Mcyc"], [1e3, "kcyc"]]
    : [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
  for (const [size, name] of units) {
    // A value that would be rounded to 1,000 of a unit is 1.00 of the next.
    if (ns < size * 0.9995) continue;
    const value = ns / size;
    return `${value < 9.995 ? fixed(value, 2) : value < 99.95 ? fixed(value, 1) : commas(String(Math.floor(value + 0.5)))} ${name}`;
  }
  return `${sig3(ns)} ${cycles ? "cyc" : "ns"}`;
}

// Formats a share as the report's text does: "12.3%", "<0.1%" of what would read as none.
export function percent(share: number): string {
  return share > 0 && share < 0.0005 ? "<0.1%" : `${fixed(share * 100, 1)}%`;
}

// Formats a time after the start of the interval: "+1.234567 s".
export function moment(ns: number, digits = 6): string {
  return cycles ? `+${grouped(ns)} cycles` : `+${(ns / 1e9).toFixed(digits)} s`;
}

// Returns the clock's seconds, as trapline's --from and --to take them. `start` is the interval's, as text.
export function momentOption(start: string, ns: number): string {
  const at = BigInt(start) + BigInt(Math.round(ns));
  const digits = (at < 0n ? 0n : at).toString().padStart(10, "0");
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

// Returns the words of a command for a part of its recording, whose interval begins at `start`.
export const partOf = (words: string[], start: string, from: number, to: number): string[] =>
  [...without(words, "--from", "--to"), "--from", momentOption(start, from), "--to", momentOption(start, to)];

// Returns the words of a command without these options and their values.
export function without(words: string[], ...options: string[]): string[] {
  return words.filter((word, i) => !options.includes(word) && !options.includes(words[i - 1] ?? ""));
}

// Writes out characters that would be invisible or turn the text around: names come from recordings.
// Markup needs no escapes, since all text goes into text nodes.
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
    (c) => `\\u{${c.charCodeAt(0).toString(16)}}`,
  );
}

// Quotes a word for a POSIX shell, if that is needed.
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}
