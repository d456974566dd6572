#include "merge/record/ftrace_control.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/uninterrupted.h"

struct tracefs_instance;
struct tracefs_hist;
// Line 451 of tracefs.h (1.6.4) gives a number where C++ wants an enumerator: with this declaration
// it compiles.
int tracefs_hist_command(tracefs_instance*, tracefs_hist*, int);
extern "C" {
#include <tracefs.h>
}

namespace trapline::record {
namespace {

// Returns the cause of a failure; the library sets no errno if it has no memory.
int last_cause() { return errno != 0 ? errno : EIO; }

// Calls a function of the library, again if a signal interrupts it.
auto result_of(const auto& call) {
  return uninterrupted([&call] {
    errno = 0;
    return call();
  });
}
// Returns the text that call() allocates. Returns nullopt if call() returns NULL; errno then has
// the cause, or is 0 if call() set none.
std::optional<std::string> allocated(const auto& call) {
  char* text = nullptr;
  do {
    errno = 0;
    text = call();
  } while (text == nullptr && errno == EINTR);
  if (text == nullptr) return std::nullopt;
  std::string copy(text);
  std::free(text);
  return copy;
}

std::vector<std::string> names_in(char** list) {
  std::vector<std::string> names;
  for (char** name = list; name != nullptr && *name != nullptr; ++name) names.emplace_back(*name);
  tracefs_list_free(list);
  return names;
}

// The library keeps one root for the whole process, whichever instance is meant.
bool set_root(std::string root) { return tracefs_set_tracing_dir(root.data()) == 0; }
void forget_root() { (void)tracefs_set_tracing_dir(nullptr); }

// tracefs_instance_alloc() copies a name into a buffer of PATH_MAX without checking its length.
bool is_short(const std::string& root, const std::string& name) {
  return name.empty() || (name.size() <= NAME_MAX && root.size() < PATH_MAX / 2);
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
  tracefs_instance_free(instance);
}

tl::expected<FtraceControl, int> FtraceControl::open(const std::string& root,
                                                     const std::string& name) {
  if (!is_short(root, name)) return tl::unexpected(ENAMETOOLONG);
  errno = ENOENT;
  auto* instance = tracefs_instance_alloc(root.c_str(), name.empty() ? nullptr : name.c_str());
  if (instance == nullptr) return tl::unexpected(errno);
  return FtraceControl(name.empty() ? root : root + "/instances/" + name, instance);
}

tl::expected<FtraceControl, int> FtraceControl::make(const std::string& root,
                                                     const std::string& name) {
  if (!is_short(root, name)) return tl::unexpected(ENAMETOOLONG);
  if (!set_root(root)) return tl::unexpected(errno);
  auto* instance = tracefs_instance_create(name.c_str());
  forget_root();
  if (instance == nullptr) return tl::unexpected(errno);
  // The library also returns an instance that existed before.
  if (!tracefs_instance_is_new(instance)) {
    tracefs_instance_free(instance);
    return tl::unexpected(EEXIST);
  }
  return FtraceControl(root + "/instances/" + name, instance);
}

Result<void> FtraceControl::switch_off() const {
  if (has(kCopyMarker)) (void)set(kCopyMarker, "0");
  return switch_tracing(false);
}

int FtraceControl::remove() const {
  errno = 0;
  return tracefs_instance_destroy(instance_.get()) == 0 ? 0 : last_cause();
}

std::string FtraceControl::path(std::string_view file) const {
  return fmt::format("{}{}{}", folder_, file.empty() ? "" : "/", file);
}

Result<void> FtraceControl::write(int (*call)(tracefs_instance*, const char*, const char*),
                                  const std::string& file, const std::string& text) const {
  const int size = result_of([&] { return call(instance_.get(), file.c_str(), text.c_str()); });
  if (size >= 0 && static_cast<std::size_t>(size) == text.size()) return {};
  const int cause = size < 0 ? last_cause() : EIO;
  if (cause == ENOENT) return fail("{}: {}", path(file), std::strerror(cause));
  // error_log has an entry about this filter only if the kernel could not parse it (EINVAL).
  // Otherwise its last entry is about an earlier filter.
  const bool is_logged = cause == EINVAL && file.ends_with("/filter");
  const std::string why = is_logged ? last_error(get("error_log").value_or("")) : "";
  return fail("{}: '{}' is refused: {}{}{}", path(file), text, std::strerror(cause),
              why.empty() ? "" : ": ", why);
}

Result<void> FtraceControl::set(const std::string& file, const std::string& text) const {
  return write(tracefs_instance_file_write, file, text);
}

Result<void> FtraceControl::append(const std::string& file, const std::string& text) const {
  return write(tracefs_instance_file_append, file, text);
}

Result<std::string> FtraceControl::get(const std::string& file) const {
  auto text =
      allocated([&] { return tracefs_instance_file_read(instance_.get(), file.c_str(), nullptr); });
  // The library returns NULL for an error and for an empty file; errno distinguishes them.
  if (!text && errno != 0) return fail("{}: {}", path(file), std::strerror(errno));
  return std::move(text).value_or("");
}

bool FtraceControl::has(const std::string& file) const {
  return tracefs_file_exists(instance_.get(), file.c_str());
}

std::string FtraceControl::clock() const {
  return allocated([&] { return tracefs_get_clock(instance_.get()); }).value_or("");
}

std::vector<std::string> event_systems(const std::string& root) {
  return names_in(tracefs_event_systems(root.c_str()));
}

// Looks up a name without wildcards directly: to list a system's events, libtracefs looks at each
// file of the system's folder, and `syscalls` has a thousand events.
std::vector<std::string> events_of(const std::string& root, const std::string& system,
                                   std::string_view pattern) {
  const bool is_name = pattern.find_first_of("*?/.") == pattern.npos;
  std::vector<std::string> names =
      is_name ? std::vector<std::string>{std::string(pattern)}
              : names_in(tracefs_system_events(root.c_str(), system.c_str()));
  std::erase_if(names, [&](const std::string& name) {
    return !matches(pattern, name) ||
           !is_there(fmt::format("{}/events/{}/{}/enable", root, system, name));
  });
  return names;
}

std::vector<std::string> instances_of(const std::string& root) {
  if (!set_root(root)) return {};
  std::vector<std::string> names = names_in(tracefs_instances(nullptr));
  forget_root();
  return names;
}

}  // namespace trapline::record
