#include "plugin/format/directory_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text_file.h"
#include "plugin/format/task.h"

namespace trapline {
namespace {

// Returns whether a recording contains files of this name, or Folder::replace() makes one for it
// (NAME.new). No other file is ever removed.
bool of_a_recording(std::string_view name) {
  if (name.ends_with(".new")) name.remove_suffix(4);
  if (name == "info" || name == "task.txt" || name == "sync.txt" || name == "default.opts")
    return true;
  if (name.starts_with("sid-") && name.ends_with(".map")) return true;
  if (name.ends_with(".sym") || name.ends_with(".dbg")) return true;
  if (name.starts_with("perf-cpu") && name.ends_with(".dat")) return true;
  return name.ends_with(".dat") && name.find_first_not_of("0123456789") == name.size() - 4;
}

// Removes a recording. Moves files that do not belong to a recording to the folder `keep`, if there
// is one.
Result<void> remove_recording(const Folder& above, const std::string& name, const Folder* keep) {
  const auto folder = above.open_folder(name);
  if (!folder) return tl::unexpected(folder.error());
  const auto names = folder->names();
  if (!names) return tl::unexpected(names.error());
  for (const std::string& file : *names) {
    Result<void> gone = of_a_recording(file) ? folder->remove(file)
                        : keep != nullptr    ? folder->move_to(*keep, file)
                                             : fail("{}: not a recording's", folder->path_of(file));
    if (!gone) return gone;
  }
  return above.remove(name);
}

// Returns the folder's current path. It asks the descriptor, since the folder's name may lead
// elsewhere by now.
std::string real_place(const Folder& folder) {
  std::error_code error;
  const auto link = fmt::format("/proc/self/fd/{}", folder.fd());
  const auto place = std::filesystem::read_symlink(link, error);
  return !error && place.is_absolute() ? place.string() : folder.path();
}

constexpr std::size_t kFewTasks = 64;  // up to this many tasks, info is written for each
constexpr auto kLongest = std::chrono::seconds(10);

}  // namespace

Result<DirectoryWriter> DirectoryWriter::create(const std::string& path, UftraceInfo info,
                                                Place place) {
  std::string name = path;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  auto there = Folder::open(name);
  bool empty = true;
  if (there) {
    const auto names = there->names();
    if (!names) return tl::unexpected(names.error());
    empty = names->empty();
    const auto earlier = there->read("info");
    if (!empty && (!earlier || !parse_info(*earlier, name))) {
      return fail(ErrorKind::kUsage,
                  "{} is not empty and holds no earlier recording; give another directory", path);
    }
    name = real_place(*there);  // a symbolic link stays; its target is replaced
  } else if (const auto slash = name.rfind('/'); slash != name.npos && slash != 0) {
    (void)Folder::open_or_make(name.substr(0, slash));  // a failure here shows again below
  }
  auto at = Folder::open_parent(name);
  if (!at || (!there && at->first.has(at->second))) {
    return fail("cannot create the directory {}: {}", path,
                (at ? there.error() : at.error()).message);
  }
  DirectoryWriter writer(name, std::move(at->first), std::move(at->second), std::move(info));
  auto folder = place == Place::kBeside || (there && !empty) ? writer.make_beside()
                : there                                      ? std::move(there)
                        : writer.above_.make_folder(writer.name_, 0777);
  if (!folder) {
    return fail("cannot create the directory {}: {}", path, folder.error().message);
  }
  writer.folder_ = std::move(*folder);
  auto tasks = writer.folder_->open_to_append("task.txt");
  if (!tasks) return tl::unexpected(std::move(tasks).error());
  writer.task_file_ = std::move(*tasks);
  if (auto written = writer.write_info(); !written) return tl::unexpected(written.error());
  return writer;
}

Result<Folder> DirectoryWriter::make_beside() {
  // Two plugins in one QEMU have the same pid, and must not share the directory.
  std::string name = fmt::format("{}.new.{}", name_, ::getpid());
  for (int other = 2; above_.has(name); ++other) {
    name = fmt::format("{}.new.{}.{}", name_, ::getpid(), other);
  }
  auto made = above_.make_folder(name, 0777);
  if (made) beside_ = std::move(name);
  return made;
}

Result<void> DirectoryWriter::commit() {
  if (beside_.empty()) return {};
  const bool replaces = above_.has(name_);
  if (auto done = replaces ? above_.exchange(beside_, name_) : above_.rename(beside_, name_); !done)
    return fail("cannot replace the earlier recording {}: {}; the new one is {}", path_,
                done.error().message, above_.path_of(beside_));
  const std::string earlier = std::exchange(beside_, "");
  return replaces ? remove_recording(above_, earlier, &*folder_) : Result<void>();
}

void DirectoryWriter::discard() {
  if (!beside_.empty()) (void)remove_recording(above_, std::exchange(beside_, ""), nullptr);
}

// Replaces a file; a reader sees either the old or the new text.
Result<void> DirectoryWriter::replace(const std::string& name, const std::string& text) const {
  return folder_->replace(name, text, 0666);
}

// Appends whole lines or none. Lines that a full disk refuses are written with the next task.
Result<void> DirectoryWriter::append_tasks() {
  struct stat status {};
  if (unwritten_.empty()) return {};
  if (::fstat(task_file_.get(), &status) != 0) return fail("{}/task.txt: cannot be read", path_);
  const int error = write_bytes(task_file_.get(), unwritten_);
  if (error != 0) {
    (void)!::ftruncate(task_file_.get(), status.st_size);
    return fail("cannot write {}/task.txt: {}", path_, std::strerror(error));
  }
  unwritten_.clear();
  return {};
}

Result<void> DirectoryWriter::write_info() {
  listed_ = info_.tids.size();
  listed_at_ = Clock::now();
  return replace("info", format_info(info_));
}

Result<void> DirectoryWriter::write_symbols(const SymbolFiles& symbols) {
  for (const DirectoryFile& file : symbols.files)
    if (auto written = replace(file.name, file.text); !written) return written;
  return replace("sid-0.map", format_map(symbols.map));
}

Result<void> DirectoryWriter::add_task(std::uint32_t tid, const std::string& name,
                                       std::uint64_t time) {
  unwritten_ += format_line(SessionLine{time, tid, "0", name});
  unwritten_ += format_line(TaskLine{time, tid, tid});
  return list_task(tid);
}

Result<void> DirectoryWriter::add_thread(std::uint32_t tid, std::uint32_t pid, std::uint64_t time) {
  if (!std::exchange(has_session_, true))
    unwritten_ += format_line(SessionLine{time, pid, "0", info_.exename});
  unwritten_ += format_line(TaskLine{time, tid, pid});
  return list_task(tid);
}

Result<void> DirectoryWriter::forked(std::uint32_t pid, std::uint32_t parent, std::uint64_t time) {
  unwritten_ = format_line(ForkLine{time, pid, parent});
  return append_tasks();
}

Result<void> DirectoryWriter::list_task(std::uint32_t tid) {
  info_.tids.push_back(tid);
  if (auto written = append_tasks(); !written) return written;
  const std::size_t tasks = info_.tids.size();
  return tasks <= kFewTasks || tasks > listed_ + listed_ / 8 ? write_info() : keep_up();
}

Result<void> DirectoryWriter::keep_up() {
  if (listed_ == info_.tids.size() || Clock::now() - listed_at_ < kLongest) return {};
  return write_info();
}

void DirectoryWriter::list_others_tasks() {
  const auto text = folder_->read("task.txt");
  if (!text) return;
  const auto tasks = parse_task_file(*text, folder_->path_of("task.txt"));
  if (!tasks) return;
  for (const TaskLine& task : tasks->tasks) info_.tids.push_back(task.tid);
  std::sort(info_.tids.begin(), info_.tids.end());
  info_.tids.erase(std::unique(info_.tids.begin(), info_.tids.end()), info_.tids.end());
}

Result<void> DirectoryWriter::finish(std::uint64_t elapsed_ns) {
  info_.elapsed_time =
      fmt::format("{}.{:09} sec", elapsed_ns / 1'000'000'000, elapsed_ns % 1'000'000'000);
  auto tasks = append_tasks();
  if (has_session_) list_others_tasks();
  auto info = write_info();
  return tasks ? info : tasks;
}

Result<UniqueFd> DirectoryWriter::open_data(std::uint32_t tid) const {
  return open_file(fmt::format("{}.dat", tid));
}

Result<UniqueFd> DirectoryWriter::open_file(const std::string& name) const {
  return folder_->open_to_append(name);
}

}  // namespace trapline
