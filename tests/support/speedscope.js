// usage: node speedscope.js FOLDER: for each line of standard input, the name of a file, reads the file with speedscope's own
// importer and prints a line of JSON: {"profiles": [...]}, of each profile its name and each frame's name with its total
// weight (in nanoseconds where the unit is one of time), or {"error": TEXT}, also where the importer warns.
//
// The importer has no module of its own in the released package: its namespace is taken out of the web
// page's script where that loads it. The page itself is not started.
const fs = require('fs'), path = require('path'), vm = require('vm');
const [, , folder] = process.argv;
const name = fs.readdirSync(folder).find((entry) => /^speedscope-\w+\.js$/.test(entry));
const script = fs.readFileSync(path.join(folder, name), 'utf8');
const space = /([\w$]+)=\{\};[\w$]+\(\1,\{[^}]*importProfileGroupFromText:/.exec(script);
const load = space && new RegExp(`Promise\\.resolve\\(\\)\\.then\\(\\(\\)=>\\(([\\w$]+)\\(\\),${space[1]}\\)\\)`).exec(script);
if (!load) throw Error(`${name}: the importer is not where it was in speedscope 1.25`);
const anything = new Proxy(function () {}, {get: (_, key) => key === Symbol.toPrimitive ? () => '' : anything,
  apply: () => anything, construct: () => anything, set: () => true});
const warnings = [];
const quiet = {log() {}, debug() {}, warn: (text) => warnings.push(text), error: (text) => warnings.push(text)};
const page = {console: quiet, TextDecoder, TextEncoder, setTimeout, URL, performance, document: anything, navigator: anything,
  location: anything, localStorage: anything, requestAnimationFrame: () => 0, matchMedia: () => anything};
page.window = page.self = page.globalThis = page;
class Loaded extends Error {}
page.loaded = (importer) => { page.importer = importer; throw new Loaded(); };
try {
  const cut = script.replace(load[0], `loaded((${load[1]}(),${space[1]}))`);
  vm.runInNewContext(cut, page, {filename: name});
} catch (error) {
  if (!page.importer) throw error;
}
async function read(file) {
  warnings.length = 0;
  const group = await page.importer.importProfileGroupFromText(path.basename(file), fs.readFileSync(file, 'utf8'));
  if (!group) throw Error('speedscope does not know its format');
  const scale = {nanoseconds: 1, microseconds: 1e3, milliseconds: 1e6, seconds: 1e9, none: 1};
  const profiles = group.profiles.map((profile) => {
    const weights = {};
    const unit = profile.getWeightUnit();
    profile.forEachFrame((frame) => {
      weights[frame.name] = (weights[frame.name] || 0) + Math.round(frame.getTotalWeight() * scale[unit]);
    });
    return {name: profile.getName(), unit, total: Math.round(profile.getTotalNonIdleWeight() * scale[unit]), weights};
  });
  if (warnings.length) throw Error(`${warnings.length} warnings, such as: ${warnings[0]}`);
  return profiles;
}
(async () => {
  for await (const file of require('readline').createInterface({input: process.stdin})) {
    console.log(JSON.stringify(await read(file).then((profiles) => ({profiles}), ({message}) => ({error: message}))));
  }
})();
