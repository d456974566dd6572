// An ftrace instance of a test's own, removed at its end. Needs root; TRAPLINE_REQUIRE(usable()).
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/tracefs_events.h"

namespace trapline::test {

struct MarkerText {
  int pid;
  std::uint64_t stamp;
  std::string text;  // without the newline that the kernel adds
};

class Instance {
 public:
  // Mounts tracefs where it is missing and the test may.
  static bool usable() {
    if (::geteuid() != 0) return false;
    if (::access("/sys/kernel/tracing/trace_marker", W_OK) != 0) {
      (void)::mount("nodev", "/sys/kernel/tracing", "tracefs", 0, nullptr);
    }
    return ::access("/sys/kernel/tracing/trace_marker", W_OK) == 0;
  }

  Instance() : name_("trapline-test-" + std::to_string(::getpid())) {
    if (::mkdir(path("").c_str(), 0755) != 0) name_.clear();
  }
  ~Instance() { remove(); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  bool remove() { return !name_.empty() && ::rmdir(path("").c_str()) == 0; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string path(const std::string& file) const {
    return "/sys/kernel/tracing/instances/" + name_ + "/" + file;
  }
  bool set(const std::string& file, const std::string& value) const {
    std::ofstream stream(path(file));
    stream << value << std::flush;
    return stream.good();
  }
  [[nodiscard]] std::vector<MarkerText> markers() const {
    std::vector<MarkerText> found;
    trapline_read_markers(
        name_.c_str(),
        [](int pid, unsigned long long stamp, const char* text, std::size_t size, void* context) {
          std::string copy(text, size);
          if (copy.ends_with('\n')) copy.pop_back();
          static_cast<std::vector<MarkerText>*>(context)->push_back({pid, stamp, copy});
        },
        &found);
    return found;
  }
  [[nodiscard]] long lost() const { return trapline_lost_events(name_.c_str()); }

 private:
  std::string name_;
};

}  // namespace trapline::test
