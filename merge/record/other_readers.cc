#include "merge/record/other_readers.h"

#include <fcntl.h>
#include <unistd.h>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/record/session.h"

namespace trapline::record {

OtherReaders::OtherReaders(const std::string& stats)
    : stats_(::open(stats.c_str(), O_RDONLY | O_CLOEXEC)) {}

std::optional<std::uint64_t> OtherReaders::read_events() const {
  char text[1024];
  const auto size = uninterrupted([&] { return ::pread(stats_.get(), text, sizeof text, 0); });
  if (size <= 0) return std::nullopt;
  return stats_value(std::string(text, static_cast<std::size_t>(size)), "read events");
}

// Where another process emptied the buffer, the count begins again: what it says then is not
// compared with what was before.
void OtherReaders::before() {
  const auto now = read_events();
  if (now && after_ && *now > *after_) events_ += *now - *after_;
}

void OtherReaders::after() { after_ = read_events(); }

}  // namespace trapline::record
