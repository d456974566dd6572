// Where functions are declared, from DWARF through libdw.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/symbol_writer.h"

namespace trapline {
namespace {

struct DwarfCloser {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};

int collect(Dwarf_Die* function, void* opaque) {
  auto& lines = *static_cast<std::vector<SourceLine>*>(opaque);
  Dwarf_Addr low = 0;
  int line = 0;
  const char* file = dwarf_decl_file(function);
  if (dwarf_lowpc(function, &low) == 0 && file != nullptr &&
      dwarf_decl_line(function, &line) == 0 && line > 0)
    lines.push_back({low, file, static_cast<unsigned>(line)});
  return DWARF_CB_OK;
}

}  // namespace

Result<std::vector<SourceLine>> read_source_lines(const SymbolFile& file) {
  const std::string& path = file.debug_path.empty() ? file.path : file.debug_path;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::unique_ptr<Dwarf, DwarfCloser> dwarf(dwarf_begin(fd.get(), DWARF_C_READ));
  if (!dwarf) return fail("{} has no debug information", path);
  std::vector<SourceLine> lines;
  Dwarf_Off offset = 0;
  Dwarf_Off next = 0;
  std::size_t header = 0;
  while (dwarf_nextcu(dwarf.get(), offset, &next, &header, nullptr, nullptr, nullptr) == 0) {
    Dwarf_Die unit;
    if (dwarf_offdie(dwarf.get(), offset + header, &unit) != nullptr)
      dwarf_getfuncs(&unit, collect, &lines, 0);
    if (next <= offset) break;
    offset = next;
  }
  std::sort(lines.begin(), lines.end(),
            [](const SourceLine& a, const SourceLine& b) { return a.address < b.address; });
  return lines;
}

}  // namespace trapline
