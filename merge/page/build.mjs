// Bundles the page and writes it as C++: build.mjs MODULES OUT.cc. MODULES is the folder whose
// node_modules the lock file filled.
//
// The page is one file with a Content-Security-Policy that lets only this script and this style
// run, by their hashes; the data goes in between, where trapline writes it.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [modules, output] = process.argv.slice(2);
if (!modules || !output) throw new Error("usage: build.mjs MODULES OUT.cc");
const here = dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(join(modules, "package.json"))("esbuild");

// The page contains a copy of uPlot, so its script carries uPlot's licence.
const licence = readFileSync(join(modules, "node_modules/uplot/LICENSE"), "utf8");
const build = (entry, banner = {}) =>
  esbuild.buildSync({
    entryPoints: [join(here, entry)],
    bundle: true,
    minify: true,
    charset: "ascii",
    format: "iife",
    target: ["es2022"],
    legalComments: "inline",
    banner,
    nodePaths: [join(modules, "node_modules")],
    write: false,
    absWorkingDir: here,
  }).outputFiles[0].text.trim();

const script = build("src/main.ts", { js: `/*! uPlot:\n${licence}*/` }).replace(/<\/script/gi, "<\\/script");
const style = build("page.css");
const hash = (text) => `sha256-${createHash("sha256").update(text, "utf8").digest("base64")}`;
let page = readFileSync(join(here, "page.html"), "utf8");
for (const [name, text] of Object.entries({ SCRIPT_HASH: hash(script), STYLE_HASH: hash(style), STYLE: style, SCRIPT: script })) {
  page = page.replace(`@${name}@`, () => text);
}
const [before, after] = page.split("@DATA@");
if (after === undefined) throw new Error("page.html has no place for the data");

const bytes = (text) => {
  const lines = [];
  const data = Buffer.from(text, "utf8");
  for (let i = 0; i < data.length; i += 32) lines.push([...data.subarray(i, i + 32)].join(","));
  return lines.join(",\n");
};
writeFileSync(output, `// Made by merge/page/build.mjs.
#include "merge/render/page_template.h"
namespace trapline {
namespace {
const unsigned char kBefore[] = {
${bytes(before)}};
const unsigned char kAfter[] = {
${bytes(after)}};
std::string_view view(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}
}  // namespace
PageTemplate page_template() {
  return {view(kBefore, sizeof kBefore), view(kAfter, sizeof kAfter)};
}
}  // namespace trapline
`);
if (process.env["TRAPLINE_PAGE_HTML"]) writeFileSync(process.env["TRAPLINE_PAGE_HTML"], before + "@DATA@" + after);
