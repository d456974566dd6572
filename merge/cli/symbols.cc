// trapline symbols: the symbol files and the map of a uftrace data directory.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/cli/help.h"
#include "plugin/format/symbol_writer.h"

namespace trapline::cli {
namespace {

struct SymbolsArguments {
  std::vector<std::string> files;
  std::string output;
  std::vector<std::string> known;
  bool prefix = false;
  bool lines = true;
};

// Parses SYMBOL=ADDRESS and sets the offset of the file that has the symbol.
Result<void> place_by_symbol(const std::string& known, const std::vector<SymbolFile>& files,
                             std::vector<PlacedSymbols>& placed) {
  const std::size_t equals = known.rfind('=');
  const auto address = equals == std::string::npos
                           ? std::nullopt
                           : parse_number(std::string_view(known).substr(equals + 1));
  if (!address) return fail(ErrorKind::kUsage, "--at {}: write SYMBOL=0xADDRESS", known);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const Symbol* symbol = files[i].by_name(known.substr(0, equals))) {
      placed[i].offset = *address - symbol->address;
      return {};
    }
  return fail(ErrorKind::kUsage, "--at {}: no file has a function of this name", known);
}

Result<void> run_symbols(const SymbolsArguments& options) {
  std::vector<SymbolFile> files;
  std::vector<PlacedSymbols> placed;
  for (const std::string& text : options.files) {
    auto spec = parse_symbol_file_spec(text);
    if (!spec) return tl::unexpected(std::move(spec).error());
    auto file = load_symbol_file(spec->path);
    if (!file) return tl::unexpected(std::move(file).error());
    const std::string name(basename_of(spec->path));
    placed.push_back({nullptr, spec->offset, options.prefix ? name + ":" : ""});
    files.push_back(std::move(*file));
  }
  for (std::size_t i = 0; i < files.size(); ++i) placed[i].file = &files[i];
  for (const std::string& known : options.known)
    if (auto done = place_by_symbol(known, files, placed); !done) return done;
  auto formatted = format_symbol_files(placed, options.lines);
  if (!formatted) return tl::unexpected(std::move(formatted).error());
  const auto folder = Folder::open_or_make(options.output);
  if (!folder) return tl::unexpected(folder.error());
  formatted->files.push_back({"sid-0.map", format_map(formatted->map)});
  for (const DirectoryFile& file : formatted->files)
    if (auto written = folder->replace(file.name, file.text, 0666); !written) return written;
  for (std::size_t i = 0; i < files.size(); ++i) {
    fmt::print("{}: {} functions at offset 0x{:x}{}{}\n", printable(files[i].path),
               files[i].symbols.size(), placed[i].offset,
               files[i].debug_path.empty() ? "" : ", from ", printable(files[i].debug_path));
  }
  return {};
}

}  // namespace

void add_symbols(CLI::App& app, int& status) {
  auto options = std::make_shared<SymbolsArguments>();
  CLI::App* command = app.add_subcommand(
      "symbols", "Write the symbol files and the map of a uftrace data directory");
  command
      ->add_option("FILE[@OFFSET]", options->files,
                   "ELF file, System.map, kallsyms or .sym file; OFFSET is added to its addresses")
      ->required();
  const OptionGroup rest(*command, kRest);
  OptionGroup(*command, kOutput)
      .add("-o,--output", options->output, "DIR", "The uftrace data directory")
      ->required();
  rest.add("--at", options->known, "SYMBOL=ADDRESS",
           "The address of a function at run time; it gives the offset of its file (KASLR)");
  rest.flag("--prefix", options->prefix, "Put the file's name before each function's name");
  rest.flag("!--no-lines", options->lines, "Write no source lines (.dbg)");
  on_run(*command, status, options, run_symbols);
}

}  // namespace trapline::cli
