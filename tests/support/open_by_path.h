// Recordings by their path, for tests of one reader: opens the file as open_source() does.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "merge/session/open.h"
#include "merge/source/open_recording.h"
#include "merge/source/perf_data/layout.h"
#include "merge/source/qemu_log/qemu_log_source.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline {

namespace test {

// Returns what `open` makes of the file at the path.
template <typename Open>
auto opened(Result<File> file, const Open& open) -> decltype(open(std::move(*file))) {
  if (!file) return tl::unexpected(std::move(file).error());
  return open(std::move(*file));
}

}  // namespace test

namespace trace_dat {

inline Result<std::unique_ptr<TraceDatSource>> open_trace_dat(
    const std::string& path, std::optional<std::uint64_t> tsc_khz = {}, bool marker_calls = true) {
  return test::opened(open_trace_file(path), [&](File file) {
    return open_trace_dat(std::move(file), tsc_khz, marker_calls);
  });
}

}  // namespace trace_dat

inline Result<std::unique_ptr<Source>> open_perf_data(const std::string& path) {
  return test::opened(File::open(path), [](File file) {
    return open_perf_data({std::move(file), {}});
  });
}
inline Result<std::unique_ptr<Source>> open_trace_text(const std::string& path,
                                                       std::string_view unit) {
  return test::opened(File::open(path),
                      [unit](File file) { return open_trace_text(std::move(file), unit); });
}
inline Result<std::unique_ptr<Source>> open_qemu_log(const std::string& path) {
  return test::opened(File::open(path), [](File file) { return open_qemu_log(std::move(file)); });
}
inline Result<std::unique_ptr<Source>> open_simpletrace(const std::string& path,
                                                        const std::string& events_path) {
  return test::opened(File::open(path), [&events_path](File file) {
    return open_simpletrace(std::move(file), events_path);
  });
}
inline Result<SourceKind> kind_of_source(const std::string& path) {
  const auto part = recognise(path);
  if (!part) return tl::unexpected(part.error());
  return part->kind;
}

}  // namespace trapline
