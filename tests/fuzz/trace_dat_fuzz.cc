// A trace.dat's layout and the walk of its pages, without event formats: those are parsed in a
// child process, which a fuzzer cannot look into.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "merge/source/trace_dat/cpu_events.h"
#include "merge/source/trace_dat/layout.h"

namespace {

using namespace trapline;
using namespace trapline::trace_dat;

void walk(const File& file, const Layout& layout) {
  constexpr std::size_t kBuffer = 16u << 10;
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, pages, buffer.page_size, layout.long_size, kBuffer);
      std::uint64_t sum = 0;
      while (events.advance()) {
        const RecordedEvent& event = events.peek();
        for (std::uint32_t i = 0; i < event.size; ++i) sum += static_cast<unsigned>(event.data[i]);
        sum += event.time + static_cast<std::uint64_t>(events.lost_before());
      }
      if (sum == 0x5eed) std::abort();  // keeps the reads
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int descriptor = ::memfd_create("fuzz", 0);
  if (descriptor < 0 || ::write(descriptor, data, size) != static_cast<ssize_t>(size)) return 0;
  if (const auto file = File::open("/proc/self/fd/" + std::to_string(descriptor))) {
    if (const auto layout = read_layout(*file)) {
      for (const Extent& section : {layout->kallsyms, layout->printk, layout->cmdlines}) {
        (void)read_section(*file, *layout, section);
      }
      walk(*file, *layout);
    }
  }
  ::close(descriptor);
  return 0;
}
