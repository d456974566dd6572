#include "merge/source/uftrace/switches.h"

#include <algorithm>
#include <filesystem>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::size_t kBuffer = 64U << 10;  // the longest record, and more than most files
constexpr std::size_t kHeader = 8, kSwitch = 24;
constexpr std::uint32_t kTypeSwitch = 14;
constexpr std::uint16_t kOut = 0x2000, kPreempted = 0x4000;

// Nothing for other names.
std::optional<std::int32_t> cpu_of_file(std::string_view name, std::string_view before) {
  constexpr std::string_view kBehind = ".dat";
  if (!name.starts_with(before) || !name.ends_with(kBehind) ||
      name.size() < before.size() + kBehind.size())
    return std::nullopt;
  name.remove_prefix(before.size());
  name.remove_suffix(kBehind.size());
  const auto cpu = parse_number(name);
  if (!cpu || *cpu > 0xffff) return std::nullopt;
  return static_cast<std::int32_t>(*cpu);
}

}  // namespace

Result<std::vector<std::pair<File, std::int32_t>>> open_cpu_files(const std::string& directory,
                                                                  std::string_view before) {
  std::vector<std::pair<std::string, std::int32_t>> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto cpu = cpu_of_file(entry.path().filename().string(), before);
    if (cpu && entry.is_regular_file(error) && entry.file_size(error) > 0) {
      paths.emplace_back(entry.path().string(), *cpu);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::pair<File, std::int32_t>> files;
  for (const auto& [path, cpu] : paths) {
    auto file = File::open(path);
    if (!file) return tl::unexpected(std::move(file).error());
    files.emplace_back(std::move(*file), cpu);
  }
  return files;
}

Result<std::vector<SwitchReader>> SwitchReader::open_all(const std::string& directory) {
  auto files = open_cpu_files(directory, "perf-cpu");
  if (!files) return tl::unexpected(std::move(files).error());
  std::vector<SwitchReader> readers;
  for (auto& [file, cpu] : *files) readers.push_back(SwitchReader(std::move(file), cpu));
  return readers;
}

Result<std::map<std::uint32_t, std::int32_t>> first_cpus(const std::string& directory) {
  auto readers = SwitchReader::open_all(directory);
  if (!readers) return tl::unexpected(std::move(readers).error());
  std::map<std::uint32_t, TaskSwitch> firsts;
  for (SwitchReader& reader : *readers) {
    while (true) {
      auto change = reader.next();
      if (!change) return tl::unexpected(std::move(change).error());
      if (!*change) break;
      const auto [known, is_new] = firsts.emplace((*change)->tid, **change);
      if (!is_new && (*change)->time < known->second.time) known->second = **change;
    }
  }
  std::map<std::uint32_t, std::int32_t> cpus;
  for (const auto& [tid, change] : firsts) {
    if (change.out) cpus.emplace(tid, change.cpu);
  }
  return cpus;
}

Result<const std::byte*> SwitchReader::peek(std::size_t size) {
  if (at_ + size > file_.size()) return nullptr;
  if (at_ < buffer_start_ || at_ + size > buffer_start_ + buffer_.size()) {
    buffer_start_ = at_;
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, file_.size() - at_)));
    if (auto read = file_.read(at_, buffer_); !read) return tl::unexpected(read.error());
  }
  return buffer_.data() + (at_ - buffer_start_);
}

Result<std::optional<TaskSwitch>> SwitchReader::next() {
  while (!damaged_ && at_ < file_.size()) {
    auto header = peek(kHeader);
    if (!header) return tl::unexpected(std::move(header).error());
    const auto type = *header == nullptr ? 0 : load<std::uint32_t>(*header);
    const auto misc = *header == nullptr ? std::uint16_t{} : load<std::uint16_t>(*header + 4);
    const auto size = *header == nullptr ? std::uint16_t{} : load<std::uint16_t>(*header + 6);
    const bool is_switch = type == kTypeSwitch;
    if (size < kHeader || size % 8 != 0 || (is_switch && size != kSwitch)) {
      damaged_ = true;
      break;
    }
    auto record = peek(size);
    if (!record) return tl::unexpected(std::move(record).error());
    if (*record == nullptr) {
      damaged_ = true;  // cut off
      break;
    }
    at_ += size;
    if (!is_switch) continue;
    TaskSwitch change;
    change.tid = load<std::uint32_t>(*record + 12);
    change.time = load<std::uint64_t>(*record + 16);
    change.cpu = cpu_;
    change.out = (misc & kOut) != 0;
    change.preempted = change.out && (misc & kPreempted) != 0;
    if (change.time < last_) {
      damaged_ = true;
      break;
    }
    last_ = change.time;
    return std::optional(change);
  }
  return std::optional<TaskSwitch>();
}

}  // namespace trapline
