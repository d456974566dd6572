// The worker's code that reads ELF symbols, source lines and mangled names, in this process. What
// it answers goes nowhere.
#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/bounded.h"
#include "tests/fuzz/input_files.h"

// With what it keeps to itself: it opens one file in its life.
#include "merge/worker/elf_symbols.cc"

namespace trapline::worker {
void answer(MessageKind, std::span<const std::byte> payload) {
  if (payload.size() > kLargestMessage + kMessagePiece) std::abort();
}
void refuse(ErrorKind, std::string_view) {}
}  // namespace trapline::worker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  using namespace trapline::worker;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [&] {
    read_symbols(
        {MessageKind::kFile, {}, UniqueFd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC))});
    for (const std::uint32_t table : {0u, 1u}) {
      MessageWriter which;
      which.number(table);
      read_symbols({MessageKind::kSymbols, {which.bytes().begin(), which.bytes().end()}, {}});
    }
    read_symbols({MessageKind::kLines, {}, {}});
    read_symbols({MessageKind::kChecksum, {}, {}});
    if (opened.elf != nullptr) elf_end(opened.elf);
    if (!opened.bytes.empty()) ::munmap(opened.bytes.data(), opened.bytes.size());
    opened = {};
  });
  return 0;
}
