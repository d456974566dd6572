#include "merge/record/ftrace_control.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "merge/record/tracefs_shim.h"

namespace trapline::record {
namespace {

std::optional<std::string> taken(char* text) {
  if (text == nullptr) return std::nullopt;
  std::string copy(text);
  std::free(text);
  return copy;
}

void add_name(const char* name, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
}

// Returns the first line of the last entry in error_log: "[  12.345678] event filter parse error:
// error: Field not found". (tracefs_error_last() of 1.6.4 reads an uninitialised pointer if a read
// fails.)
std::string last_error(std::string_view log) {
  const auto at = log.rfind("error: ");
  return at == std::string_view::npos ? "" : std::string(log.substr(at, log.find('\n', at) - at));
}

}  // namespace

void FtraceControl::Close::operator()(tracefs_instance* instance) const {
  trapline_tracefs_close(instance);
}

tl::expected<FtraceControl, int> FtraceControl::open(const std::string& root,
                                                     const std::string& name) {
  auto* instance = trapline_tracefs_open(root.c_str(), name.empty() ? nullptr : name.c_str());
  if (instance == nullptr) return tl::unexpected(errno);
  return FtraceControl(name.empty() ? root : root + "/instances/" + name, instance);
}

tl::expected<FtraceControl, int> FtraceControl::make(const std::string& root,
                                                     const std::string& name) {
  auto* instance = trapline_tracefs_make(root.c_str(), name.c_str());
  if (instance == nullptr) return tl::unexpected(errno);
  return FtraceControl(root + "/instances/" + name, instance);
}

Result<void> FtraceControl::switch_off() const {
  if (has(kCopyMarker)) (void)set(kCopyMarker, "0");
  return switch_tracing(false);
}

int FtraceControl::remove() const { return trapline_tracefs_remove(instance_.get()); }

std::string FtraceControl::path(std::string_view file) const {
  return fmt::format("{}{}{}", folder_, file.empty() ? "" : "/", file);
}

Result<void> FtraceControl::done(int cause, const std::string& file,
                                 const std::string& text) const {
  if (cause == 0) return {};
  if (cause == ENOENT) return fail("{}: {}", path(file), std::strerror(cause));
  return fail("{}: '{}' is refused: {}", path(file), text, std::strerror(cause));
}

Result<void> FtraceControl::set(const std::string& file, const std::string& text) const {
  return done(trapline_tracefs_write(instance_.get(), file.c_str(), text.c_str()), file, text);
}

Result<void> FtraceControl::append(const std::string& file, const std::string& text) const {
  return done(trapline_tracefs_append(instance_.get(), file.c_str(), text.c_str()), file, text);
}

Result<std::string> FtraceControl::get(const std::string& file) const {
  auto text = taken(trapline_tracefs_read(instance_.get(), file.c_str()));
  if (!text) return fail("{}: {}", path(file), std::strerror(errno));
  return std::move(*text);
}

bool FtraceControl::has(const std::string& file) const {
  return trapline_tracefs_has(instance_.get(), file.c_str()) != 0;
}

Result<void> FtraceControl::switch_tracing(bool on) const {
  return done(trapline_tracefs_switch(instance_.get(), on ? 1 : 0), "tracing_on", on ? "1" : "0");
}

std::string FtraceControl::clock() const {
  return taken(trapline_tracefs_clock(instance_.get())).value_or("");
}

Result<void> FtraceControl::set_buffer_kb(std::size_t kb) const {
  return done(trapline_tracefs_set_buffer_kb(instance_.get(), kb), "buffer_size_kb",
              std::to_string(kb));
}

std::optional<std::uint64_t> FtraceControl::buffer_kb(unsigned cpu) const {
  const long kb = trapline_tracefs_buffer_kb(instance_.get(), cpu);
  return kb < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(kb));
}

Result<void> FtraceControl::follow_forks() const {
  return done(trapline_tracefs_follow_forks(instance_.get()), "options/event-fork", "1");
}

// Does without tracefs_event_enable(), which takes names as case-insensitive patterns and lists all
// systems for each.
Result<void> FtraceControl::enable(const std::string& system, const std::string& event) const {
  const int cause =
      trapline_tracefs_set_event(instance_.get(), system.c_str(), event.c_str(), "enable", "1");
  return done(cause, fmt::format("events/{}/{}/enable", system, event), "1");
}

Result<void> FtraceControl::filter(const std::string& system, const std::string& event,
                                   const std::string& text) const {
  const int cause = trapline_tracefs_set_event(instance_.get(), system.c_str(), event.c_str(),
                                               "filter", text.c_str());
  auto set = done(cause, fmt::format("events/{}/{}/filter", system, event), text);
  if (cause != EINVAL) return set;  // the error log would be about an earlier filter
  const std::string why = last_error(get("error_log").value_or(""));
  return why.empty() ? set : fail("{}: {}", set.error().message, why);
}

std::vector<std::string> event_systems(const std::string& root) {
  std::vector<std::string> names;
  trapline_tracefs_systems(root.c_str(), add_name, &names);
  return names;
}

std::vector<std::string> events_of(const std::string& root, const std::string& system) {
  std::vector<std::string> names;
  trapline_tracefs_events(root.c_str(), system.c_str(), add_name, &names);
  return names;
}

std::vector<std::string> instances_of(const std::string& root) {
  std::vector<std::string> names;
  trapline_tracefs_instances(root.c_str(), add_name, &names);
  return names;
}

}  // namespace trapline::record
