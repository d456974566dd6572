// An ftrace instance of our own, or one that somebody else has set up.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/child.h"
#include "backend_ftrace/base/result.h"
#include "merge/record/ftrace_control.h"

namespace trapline::record {

// Guarantees: the instance is new and nobody else's, it is removed with this object or, if a signal
// kills this process, by a watchdog, and nothing outside its folder is written. Its name is
//     trapline-<pid>-<start time of the process>-<pid namespace>
// so that a later start can prove that the recorder that made it is dead: no process with that pid
// lives in this pid namespace, or the one that does started at another time. Instances do not
// outlive a boot. The name of an instance that the user named does not identify its maker, so that
// instance stays if its watchdog is killed too. An attached instance belongs to somebody else: it
// is not changed, and it stays.
class Instance {
 public:
  // Makes an instance that does not record yet; if `name` is empty, the instance gets a generated
  // name. Errors give the cause and the fix: tracefs is not mounted; not root; the name exists.
  [[nodiscard]] static Result<Instance> create(const std::string& name = {});

  // Attaches to somebody else's instance, which stays. The Error (kUsage, which names the option):
  // no instance has that name.
  [[nodiscard]] static Result<Instance> attach(const std::string& name, std::string_view option);

  Instance(Instance&&) noexcept = default;
  Instance& operator=(Instance&&) = delete;
  ~Instance() { (void)remove(); }

  // Removes the instance; waits up to a second for processes that still have a file of it open.
  [[nodiscard]] Result<void> remove();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& tracefs() const { return root_; }
  [[nodiscard]] std::string path(std::string_view file) const { return control_.path(file); }
  [[nodiscard]] const FtraceControl& control() const { return control_; }

  // Starts tracing. `with_top_level_marker`: also records what programs that do not know the
  // instance write into the top-level trace_marker, if this kernel can copy that (since Linux
  // 6.16). Copying is on only while tracing is (FtraceControl::switch_off()): otherwise the
  // programs' writes would fail.
  [[nodiscard]] Result<void> switch_on(bool with_top_level_marker) const;

 private:
  Instance(std::string root, std::string name, FtraceControl control);
  std::string root_, name_;
  FtraceControl control_;
  std::unique_ptr<Child> watchdog_;  // null: somebody else's instance, removed, or moved from
};

// Removes the instances that dead recorders of ours left. An instance that somebody still holds
// open (a QEMU that outlived its recorder) stops recording and stays until a later start. Returns a
// line for the user for each instance.
[[nodiscard]] std::vector<std::string> remove_leftovers(const std::string& tracefs);

// The state of an instance's maker, from the instance's name; kUnknown for a name that is not ours.
enum class Maker { kAlive, kDead, kUnknown };
[[nodiscard]] Maker maker_of(std::string_view instance);

// Returns where tracefs is; the Error says how to mount it.
[[nodiscard]] Result<std::string> find_tracefs();

}  // namespace trapline::record
