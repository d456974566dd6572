// A screenshot with at most 256 colours: a third of the bytes, for docs/images. The pictures have few
// colours and the steps of their smoothed edges.
import { deflateSync, inflateSync } from "node:zlib";

const kColours = 256;

// The pixels, four bytes each, of a PNG as Chromium writes it: 8 bits, RGB or RGBA, not interlaced.
function read(png) {
  const parts = [];
  for (let at = 8; at < png.length; ) {
    const size = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + size));
    at += 12 + size;
  }
  const [width, height, bits, type] = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25]];
  if (bits !== 8 || (type !== 2 && type !== 6) || png[28] !== 0) throw new Error("not a PNG as Chromium writes it");
  const raw = inflateSync(Buffer.concat(parts));
  const step = type === 6 ? 4 : 3, line = width * step;
  const pixels = Buffer.alloc(height * line);
  for (let y = 0; y < height; ++y) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; ++x) {
      const at = y * line + x;
      const left = x >= step ? pixels[at - step] : 0, up = y ? pixels[at - line] : 0, corner = x >= step && y ? pixels[at - line - step] : 0;
      const paeth = () => {
        const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
        return a <= b && a <= c ? left : b <= c ? up : corner;
      };
      const guess = [0, left, up, (left + up) >> 1, filter === 4 ? paeth() : 0][filter];
      pixels[at] = raw[y * (line + 1) + 1 + x] + guess;
    }
  }
  return { width, height, step, pixels };
}

function crc32(data) {
  let sum = ~0;
  for (const byte of data) {
    sum ^= byte;
    for (let i = 0; i < 8; ++i) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  size.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([size, body, sum]);
}

export function small(png) {
  const { width, height, step, pixels } = read(png);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += step) {
    const colour = pixels.readUIntBE(at, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const channels = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  // Each next colour is the one that the most pixels miss the most.
  const palette = [];
  const left = [...counts].map(([colour, count]) => ({ colour, at: channels(colour), count, far: Infinity, nearest: 0 }));
  while (palette.length < kColours) {
    const next = left.reduce((a, b) => (b.count * b.far > a.count * a.far || (a.far === Infinity && b.far === Infinity && b.count > a.count) ? b : a));
    if (next.far === 0) break;
    const [x, y, z] = next.at;
    for (const one of left) {
      const far = (one.at[0] - x) ** 2 + (one.at[1] - y) ** 2 + (one.at[2] - z) ** 2;
      if (far < one.far) Object.assign(one, { far, nearest: palette.length });
    }
    palette.push(next.colour);
  }
  const number = new Map(left.map(({ colour, nearest }) => [colour, nearest]));
  const lines = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) lines[y * (width + 1) + 1 + x] = number.get(pixels.readUIntBE((y * width + x) * step, 3));
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", head), chunk("PLTE", Buffer.from(palette.flatMap(channels))),
    chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
