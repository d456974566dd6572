// A session whose recorder was killed: read as it is, finished, and read again. Finishing loses
// nothing that could be read before.
#include <sys/resource.h>

#include <csignal>

#include "merge/session/finish.h"
#include "merge/session/session_json.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/open_by_path.h"

namespace {

using namespace trapline;

std::optional<std::uint64_t> events_of(const std::string& path) {
  auto source = trace_dat::open_trace_dat(path, {});
  if (!source) return std::nullopt;
  return fuzz::read_all(std::move(*source), fuzz::Times::kMayGoBack);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> names = {"session.json",  "raw/start.json", "raw/trace.dat",
                                                 "raw/cpu0",      "raw/cpu1",       "raw/cmdlines",
                                                 "raw/plan.json", "trace.dat",      "raw/reserve"};
  static const fuzz::MemoryFolder folder;
  static const bool alone = [] {
    // Sizes in the input make no files of that size.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{16u << 20, 16u << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return true;
  }();
  (void)alone;
  // Not again where it took long: finishing changes the folder.
  folder.fill(fuzz::text_of(data, size), names);
  const std::string path = folder.path() + "/trace.dat";
  (void)session_of_recording(path);
  const auto before = events_of(path);
  const auto finished = finish_session(folder.path());
  if (!before || !finished) return 0;
  const auto after = events_of(path);
  fuzz::hold(after && *after >= *before, "finishing lost events");
  return 0;
}
