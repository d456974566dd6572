// C++ interface to trapline/ftrace.h: the same guarantees in a type that owns the marker. Header
// only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "trapline/ftrace.h"

namespace trapline {

struct MarkerOptions {
  std::string instance = {};  // empty: the top-level buffer
  std::string tracefs = {};   // empty: search for tracefs
};

// Owns an open trace_marker. A default-constructed Marker writes nothing.
class Marker {
 public:
  Marker() = default;

  // Returns nullopt on failure, with the cause and the fix in *error.
  [[nodiscard]] static std::optional<Marker> open(const MarkerOptions& options,
                                                  std::string* error = nullptr) {
    const trapline_ftrace_options plain{
        options.instance.empty() ? nullptr : options.instance.c_str(),
        options.tracefs.empty() ? nullptr : options.tracefs.c_str()};
    char message[512];
    return own(trapline_ftrace_open(&plain, message, sizeof message), message, error);
  }
  [[nodiscard]] static std::optional<Marker> from_fd(int fd, std::string* error = nullptr) {
    char message[512];
    return own(trapline_ftrace_from_fd(fd, message, sizeof message), message, error);
  }

  Marker(Marker&& other) noexcept : marker_(std::exchange(other.marker_, nullptr)) {}
  Marker& operator=(Marker&& other) noexcept {
    if (this != &other) {
      trapline_ftrace_close(marker_);
      marker_ = std::exchange(other.marker_, nullptr);
    }
    return *this;
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker() { trapline_ftrace_close(marker_); }

  // Writes one event. Returns how many bytes the kernel took; -1 when it rejected the event.
  ssize_t write(std::string_view text) const {
    return trapline_ftrace_write(marker_, text.data(), text.size());
  }
  ssize_t printf(const char* format, ...) const TRAPLINE_PRINTF(2, 3) {
    va_list arguments;
    va_start(arguments, format);
    const ssize_t result = trapline_ftrace_vprintf(marker_, format, arguments);
    va_end(arguments);
    return result;
  }
  bool sync(unsigned tries = 16) const { return trapline_ftrace_sync(marker_, tries) == 0; }

  [[nodiscard]] trapline_ftrace_counts counts() const {
    trapline_ftrace_counts counts{};
    trapline_ftrace_get_counts(marker_, &counts);
    return counts;
  }
  [[nodiscard]] int fd() const { return trapline_ftrace_fd(marker_); }
  [[nodiscard]] trapline_ftrace* get() const { return marker_; }
  explicit operator bool() const { return marker_ != nullptr; }

 private:
  explicit Marker(trapline_ftrace* marker) : marker_(marker) {}
  static std::optional<Marker> own(trapline_ftrace* marker, const char* message,
                                   std::string* error) {
    if (marker != nullptr) return Marker(marker);
    if (error != nullptr) *error = message;
    return std::nullopt;
  }

  trapline_ftrace* marker_ = nullptr;
};

}  // namespace trapline
