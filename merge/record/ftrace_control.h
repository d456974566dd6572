// Controls an ftrace instance, or the top level of tracefs, through libtracefs. Unlike the library,
// FtraceControl repeats an interrupted call and reports a short write as a failure. It always gives
// the library the root of tracefs: the library would mount tracefs when it searches for the root.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

struct tracefs_instance;

namespace trapline::record {

// Guarantees: an Error names the file, the request and the cause and, for a filter that the kernel
// refuses, quotes the kernel's error log. tracefs is never mounted.
class FtraceControl {
 public:
  static constexpr const char* kCopyMarker = "options/copy_trace_marker";
  static constexpr std::size_t kLeastBufferKb = 8;  // set to give an instance's memory back

  // Opens an existing instance, or the top level if `name` is empty. The error is an errno.
  [[nodiscard]] static tl::expected<FtraceControl, int> open(const std::string& root,
                                                             const std::string& name = {});
  // Makes a new instance, which outlives this object.
  [[nodiscard]] static tl::expected<FtraceControl, int> make(const std::string& root,
                                                             const std::string& name);
  [[nodiscard]] int remove() const;  // returns 0 or an errno

  // Read and write control files.
  [[nodiscard]] Result<void> set(const std::string& file, const std::string& text) const;
  [[nodiscard]] Result<void> append(const std::string& file, const std::string& text) const;
  [[nodiscard]] Result<std::string> get(const std::string& file) const;
  [[nodiscard]] bool has(const std::string& file) const;

  [[nodiscard]] Result<void> switch_tracing(bool on) const {
    return set("tracing_on", on ? "1" : "0");
  }
  [[nodiscard]] Result<void> switch_off() const;  // stops tracing and copying top-level markers
  [[nodiscard]] std::string clock() const;        // returns the trace clock; empty: not known
  [[nodiscard]] Result<void> set_buffer_kb(std::size_t kb) const {
    return set("buffer_size_kb", std::to_string(kb));
  }

  [[nodiscard]] std::string path(std::string_view file) const;

 private:
  struct Close {
    void operator()(tracefs_instance* instance) const;
  };
  FtraceControl(std::string folder, tracefs_instance* instance)
      : folder_(std::move(folder)), instance_(instance) {}
  // Calls one of libtracefs' functions that write `text` into a control file.
  [[nodiscard]] Result<void> write(int (*call)(tracefs_instance*, const char*, const char*),
                                   const std::string& file, const std::string& text) const;

  std::string folder_;
  std::unique_ptr<tracefs_instance, Close> instance_;
};

// Returns the event systems of a tracefs (or of a folder with its layout), in the kernel's order.
[[nodiscard]] std::vector<std::string> event_systems(const std::string& root);
// Returns the events of a system whose names match the pattern, with * and ?, and that can be
// enabled in an instance.
[[nodiscard]] std::vector<std::string> events_of(const std::string& root, const std::string& system,
                                                 std::string_view pattern = "*");
[[nodiscard]] std::vector<std::string> instances_of(const std::string& root);

}  // namespace trapline::record
