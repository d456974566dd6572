#include "merge/source/uftrace/kernel_functions.h"

#include <algorithm>
#include <filesystem>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::size_t kBuffer = 64U << 10;  // bytes: the longest record, and more than most files
constexpr std::size_t kHeader = 8, kSwitch = 24;
constexpr std::uint32_t kTypeSwitch = 14;
constexpr std::uint16_t kOut = 0x2000, kPreempted = 0x4000;

// Returns the CPU in the name of a file: 12 for perf-cpu12.dat if `before` is "perf-cpu"; nullopt
// for other names.
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
  for (const std::string& name : names_in(directory)) {
    const auto cpu = cpu_of_file(name, before);
    const std::string path = (std::filesystem::path(directory) / name).string();
    const auto status = cpu ? status_of(path) : std::nullopt;
    if (status && S_ISREG(status->st_mode) && status->st_size > 0) paths.emplace_back(path, *cpu);
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

Result<std::map<std::uint32_t, std::int32_t>> first_cpus(std::vector<SwitchReader> readers) {
  std::map<std::uint32_t, CpuItem> firsts;
  for (SwitchReader& reader : readers) {
    while (true) {
      auto change = reader.next();
      if (!change) return tl::unexpected(std::move(change).error());
      if (!*change) break;
      const auto [known, is_new] = firsts.emplace((*change)->tid, **change);
      if (!is_new && (*change)->time < known->second.time) known->second = **change;
    }
  }
  std::map<std::uint32_t, std::int32_t> cpus;
  for (const auto& [tid, change] : firsts)
    if (change.entry) cpus.emplace(tid, change.cpu);
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

Result<std::optional<CpuItem>> SwitchReader::next() {
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
    CpuItem change;
    change.tid = load<std::uint32_t>(*record + 12);
    change.time = load<std::uint64_t>(*record + 16);
    change.cpu = cpu_;
    change.is_switch = true;
    change.entry = (misc & kOut) != 0;
    change.preempted = change.entry && (misc & kPreempted) != 0;
    if (change.time < last_) {
      damaged_ = true;
      break;
    }
    last_ = change.time;
    return std::optional(change);
  }
  return std::optional<CpuItem>();
}

namespace {

constexpr std::uint64_t kLongestHeader = 1U << 20;

}  // namespace

Result<std::optional<KernelFormat>> KernelFormat::parse(const std::string& path,
                                                        std::string_view header) {
  const auto kNone = std::optional<KernelFormat>();
  KernelFormat format;
  const auto page = parse_number(kernel_events::format_line(header, "PAGE_SIZE:"));
  const auto word = parse_number(kernel_events::format_line(header, "LONG_SIZE:"));
  if (!page || *page < 64 || *page > kLongestHeader || !word || (*word != 4 && *word != 8) ||
      header.find("ENDIAN: LE") == header.npos)
    return kNone;
  format.page_size = static_cast<std::uint32_t>(*page);
  format.long_size = static_cast<std::uint32_t>(*word);
  kernel_events::FormatTexts texts;
  texts.long_size = format.long_size;
  for (const KernelEvent* event : {&events::funcgraph_entry, &events::funcgraph_exit}) {
    const auto at = header.find(fmt::format("name: {}\n", event->name));
    if (at == header.npos) return kNone;
    const std::string_view text = header.substr(at);
    texts.formats.push_back(
        {std::string(event->system), std::string(text.substr(0, text.find("\nTRACEFS:")))});
  }
  auto formats = kernel_events::Formats::parse(path, std::move(texts));
  if (!formats) return tl::unexpected(std::move(formats).error());
  const auto is_whole = [](const kernel_events::Schema& schema) {
    return schema.decoder == Decoder::kHostAt && schema.has(0) && schema.has(1);
  };
  if (std::ranges::count_if(formats->schemas(), is_whole) != 2) return kNone;
  format.formats = std::make_shared<const kernel_events::Formats>(std::move(*formats));
  return std::optional(format);
}

Result<std::vector<KernelCallReader>> KernelCallReader::open_all(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<KernelCallReader> readers;
  std::error_code error;
  const std::string header_path = directory + "/kernel_header";
  if (!fs::is_regular_file(header_path, error) || fs::file_size(header_path, error) == 0)
    return readers;
  auto header = File::open(header_path);
  if (!header) return tl::unexpected(std::move(header).error());
  std::string text(static_cast<std::size_t>(std::min(header->size(), kLongestHeader)), '\0');
  if (auto read = header->read(0, std::as_writable_bytes(std::span(text))); !read)
    return tl::unexpected(read.error());
  const auto parsed = KernelFormat::parse(header_path, text);
  if (!parsed) return tl::unexpected(parsed.error());
  if (!*parsed) return readers;
  auto files = open_cpu_files(directory, "kernel-cpu");
  if (!files) return tl::unexpected(std::move(files).error());
  for (auto& [file, cpu] : *files)
    readers.push_back(KernelCallReader(std::move(file), cpu, **parsed));
  return readers;
}

std::optional<CpuItem> KernelCallReader::decode(
    const kernel_events::RecordedEvent& recorded) const {
  Event event;
  if (!format_.formats->decode(recorded, event)) return std::nullopt;
  const auto* call = std::get_if<HostEvent>(&event.payload);
  if (call == nullptr) return std::nullopt;
  return CpuItem{.time = recorded.time,
                 .tid = static_cast<std::uint32_t>(event.thread),
                 .cpu = cpu_,
                 .entry = call->step == HostStep::kFunctionBegin,
                 .depth = static_cast<std::uint32_t>(call->number),
                 .function = call->address};
}

Result<std::optional<CpuItem>> KernelCallReader::next() {
  kernel_events::RecordedEvent event;
  for (;;) {
    bool is_damaged = false;
    while (in_page_ && page_.next(event)) {
      const auto call = decode(event);
      if (!call) continue;
      is_damaged = call->time < last_;
      if (is_damaged) break;
      last_ = call->time;
      return call;
    }
    if (in_page_ && (is_damaged || page_.damaged())) losses_.add_gap(0);
    in_page_ = false;
    if (!file_.holds(next_page_, format_.page_size)) {
      damaged_ |= next_page_ != file_.size();  // cut off
      return std::optional<CpuItem>();
    }
    if (auto read = file_.read(next_page_, buffer_); !read) return tl::unexpected(read.error());
    next_page_ += format_.page_size;
    in_page_ = page_.load(buffer_, format_.long_size);
    if (!in_page_) losses_.add_gap(0);
    if (!in_page_ || page_.lost() == trace_dat::RingPage::kNoneLost) continue;
    losses_.add_gap(static_cast<std::uint64_t>(std::max<std::int64_t>(page_.lost(), 0)));
  }
}

LossCounts KernelCallReader::take_losses() { return std::exchange(losses_, {}); }

}  // namespace trapline
