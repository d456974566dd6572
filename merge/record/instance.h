// An ftrace instance of our own, or one that somebody else has set up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/child.h"
#include "backend_ftrace/base/result.h"
#include "merge/record/ftrace_control.h"

namespace trapline::record {

// What ends an instance when the process that made it dies of a signal that it cannot see.
//
// It is there before the instance, which records from its first moment and takes the kernel a while
// to make: a kill meanwhile must not leave it.
//
//   maker ──── reads a pipe that nobody writes into ────── watchdog, asleep at the other end
//     │ killed, crashed: the kernel closes its end ──────────> tracing off, instance removed, end
//     │ ends, but a command still holds the marker: as killed ─> tries for an hour
//     │ ends well: removes the instance ─────────────────────> killed
//
// Guarantees: in a session of its own, deaf to every signal that can be ignored, so that what ends
// the maker does not end it; holds no file but the pipe, and works in /; costs nothing while the
// maker lives. What kills both (SIGKILL to a whole cgroup) leaves the instance to
// remove_leftovers().

// For the instance that this process, which has one thread, is about to make, and which is not
// there; it ends with the object.
[[nodiscard]] Result<Child> start_watchdog(const std::string& tracefs, const std::string& name);

// Guarantees: the instance is new, nobody else's, and gone when this object is, also when a signal
// kills this process (start_watchdog()); nothing outside its folder is written. Its name is
//     trapline-<pid>-<start time of the process>-<pid namespace>
// so that a later start can prove that the recorder that made it is dead: no process of that number
// lives in this pid namespace, or one that started at another time. Instances do not outlive a
// boot. One that the user named tells nothing of its maker: where its watchdog is killed, too, it
// stays. One that is attached is somebody else's: nothing of it is changed, and it stays.
class Instance {
 public:
  // Makes it, not recording yet; with a name of its own where `name` is empty. Errors name the
  // cause and the fix: tracefs not mounted, not root, there is one of that name.
  [[nodiscard]] static Result<Instance> create(const std::string& name = {});

  // Somebody else's, which stays. An Error (kUsage, which names the option): there is none of that
  // name.
  [[nodiscard]] static Result<Instance> attach(const std::string& name, std::string_view option);

  Instance(Instance&& other) noexcept;
  Instance& operator=(Instance&&) = delete;
  Instance(const Instance&) = delete;
  ~Instance();

  // Takes it away; waits up to `wait_ms` for those who still hold one of its files open.
  [[nodiscard]] Result<void> remove(unsigned wait_ms = 1000);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& tracefs() const { return root_; }
  [[nodiscard]] std::string path(std::string_view file) const { return control_.path(file); }
  [[nodiscard]] const FtraceControl& control() const { return control_; }

  // `with_top_level_marker`: also records what programs that are not told of the instance write
  // into the top-level trace_marker, where this kernel can copy that (since Linux 6.16). Copying is
  // on only while tracing is (FtraceControl::switch_off()): else those programs' writes fail.
  [[nodiscard]] Result<void> switch_on(bool with_top_level_marker) const;

 private:
  Instance(std::string root, std::string name, FtraceControl control);
  std::string root_;
  std::string name_;  // empty: removed or moved from
  FtraceControl control_;
  std::optional<Child> watchdog_;
  bool own_ = true;
};

// Removes the instances of dead recorders of ours; those still held open by somebody (the QEMU that
// outlived its recorder) stop recording and stay until a later start. A line for the user for each.
[[nodiscard]] std::vector<std::string> remove_leftovers(const std::string& tracefs);

// The maker's state by an instance's name; nothing for a name that is not ours to judge.
enum class Maker { kAlive, kDead, kUnknown };
[[nodiscard]] Maker maker_of(std::string_view instance);

// Where tracefs is, or how to mount it.
[[nodiscard]] Result<std::string> find_tracefs();

}  // namespace trapline::record
