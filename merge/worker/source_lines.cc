// Finds where functions are declared, from DWARF through libdw.
#include "merge/worker/elf_parts.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstring>

#include "merge/worker/channel.h"

namespace trapline::worker {
namespace {

constexpr std::size_t kMostPath = 4096;

int collect(Dwarf_Die* function, void* opaque) {
  auto& rows = *static_cast<MessageWriter*>(opaque);
  Dwarf_Addr low = 0;
  int line = 0;
  const char* file = dwarf_decl_file(function);
  if (dwarf_lowpc(function, &low) != 0 || file == nullptr ||
      dwarf_decl_line(function, &line) != 0 || line <= 0)
    return DWARF_CB_OK;
  rows.number(std::uint64_t{low});
  rows.number(static_cast<std::uint32_t>(line));
  rows.text({file, ::strnlen(file, kMostPath)});
  answer_piece(MessageKind::kLines, rows);
  return DWARF_CB_OK;
}

}  // namespace

void send_source_lines(Elf* elf) {
  Dwarf* dwarf = dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
  if (dwarf == nullptr) return refuse(ErrorKind::kRuntime, "no debug information");
  MessageWriter rows;
  Dwarf_Off offset = 0;
  Dwarf_Off next = 0;
  std::size_t header = 0;
  while (dwarf_nextcu(dwarf, offset, &next, &header, nullptr, nullptr, nullptr) == 0) {
    Dwarf_Die unit;
    if (dwarf_offdie(dwarf, offset + header, &unit) != nullptr)
      dwarf_getfuncs(&unit, collect, &rows, 0);
    if (next <= offset) break;
    offset = next;
  }
  answer_end(MessageKind::kLines, rows);
  dwarf_end(dwarf);
}

}  // namespace trapline::worker
