#include "merge/record/kernel_sampler.h"

#include <fmt/ranges.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

constexpr std::uint32_t kHeaderAttr = 64, kFinishedRound = 68;  // perf's own records
constexpr std::size_t kWriteAt = 1u << 20;
constexpr rlim_t kFilesForOthers = 128;  // of the recorder, above all events

// A text with zeros up to a multiple of eight bytes, one at least.
void append_name(std::string& bytes, std::string_view name) {
  bytes.append(name.substr(0, 200));
  bytes.append(8 - std::min<std::size_t>(name.size(), 200) % 8, '\0');
}

// The fields that sample_id_all puts after each record, and the CPU.
struct SampleId {
  pid_t process = 0, thread = 0;
  std::uint64_t time = 0;  // 0: the beginning
};

void append_record(std::string& bytes, std::uint32_t type, std::uint16_t misc,
                   const std::string& body, const SampleId& id) {
  constexpr std::size_t kFrame = 8 + 24;
  append(bytes, type);
  append(bytes, misc);
  append(bytes, static_cast<std::uint16_t>(body.size() + kFrame));
  bytes += body;
  append(bytes, static_cast<std::uint32_t>(id.process));
  append(bytes, static_cast<std::uint32_t>(id.thread));
  append(bytes, id.time);
  append(bytes, std::uint64_t{0});
}

// Where perf finds the kernel's code, and that of its modules: in /proc/kallsyms by these names.
void append_map(std::string& bytes, std::uint64_t begin, std::uint64_t size,
                std::uint64_t reference, const std::string& name) {
  std::string body;
  append(body, std::uint32_t{0xffffffff});  // no process
  append(body, std::uint32_t{0});
  append(body, begin);
  append(body, size);
  append(body, reference);
  append_name(body, name);
  append_record(bytes, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, body, {});
}

// "ffffffff81000000 T _text"
std::uint64_t address_of(std::string_view line) {
  return parse_number(fmt::format("0x{}", line.substr(0, line.find(' ')))).value_or(0);
}

// Nothing where addresses are hidden.
void append_kernel(std::string& bytes) {
  std::uint64_t text = 0, end = 0;
  std::ifstream symbols("/proc/kallsyms");  // line by line: the whole of it would be large
  for (std::string line; (text == 0 || end == 0) && std::getline(symbols, line);) {
    if (line.ends_with(" T _text")) text = address_of(line);
    if (line.ends_with(" T _etext")) end = address_of(line);
  }
  if (text == 0 || end <= text) return;
  append_map(bytes, text, end - text, text, "[kernel.kallsyms]_text");
  // "kvm 1400832 1 kvm_amd, Live 0xffffffffc0a00000"
  const std::string modules = read_text("/proc/modules").value_or("");
  for (std::string_view rest = modules; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const auto name = line.find(' '), size = line.find(' ', name + 1), address = line.find(" 0x");
    if (address == line.npos || size > address) continue;
    const auto begin =
        parse_number(line.substr(address + 1, line.find(' ', address + 1) - address - 1));
    const auto bytes_of = parse_number(line.substr(name + 1, size - name - 1));
    if (begin.value_or(0) == 0 || !bytes_of) continue;
    append_map(bytes, *begin, *bytes_of, 0, fmt::format("[{}]", line.substr(0, name)));
  }
}

}  // namespace

void SampleCounts::add(std::string_view records) {
  const auto* data = reinterpret_cast<const std::byte*>(records.data());
  for (std::size_t at = 0; at + 8 <= records.size();) {
    const auto type = load<std::uint32_t>(data + at);
    const auto size = load<std::uint16_t>(data + at + 6);
    if (size < 8 || size > records.size() - at) return;
    if (type == PERF_RECORD_SAMPLE) ++samples;
    if (type == PERF_RECORD_LOST && size >= 24) lost += load<std::uint64_t>(data + at + 16);
    if (type == PERF_RECORD_THROTTLE) ++throttled;
    at += size;
  }
}

std::string name_record(pid_t thread, const Thread& what, std::uint64_t time) {
  std::string body, bytes;
  append(body, static_cast<std::uint32_t>(what.pid));
  append(body, static_cast<std::uint32_t>(thread));
  append_name(body, what.name);
  append_record(bytes, PERF_RECORD_COMM, 0, body, {what.pid, thread, time});
  return bytes;
}

Result<KernelSampler> KernelSampler::make(unsigned hz, std::string_view clock) {
  auto event = SampleEvent::choose(hz, clock, core_counters(""), try_event);
  if (!event) return tl::unexpected(std::move(event).error());
  return KernelSampler(std::move(*event));
}

std::string KernelSampler::notice() const {
  if (!event_.by_timer()) return {};
  return fmt::format("--kernel-samples: {}: a timer takes the samples; {}", event_.timer_since,
                     event_.advice);
}

// perf's header of a pipe, the attr, and where the kernel's code is.
std::string KernelSampler::head() const {
  std::string bytes = "PERFILE2";
  append(bytes, std::uint64_t{16});
  const perf_event_attr attr = event_.attr();
  append(bytes, kHeaderAttr);
  append(bytes, std::uint16_t{0});
  append(bytes, static_cast<std::uint16_t>(8 + sizeof attr));
  bytes.append(reinterpret_cast<const char*>(&attr), sizeof attr);
  append_kernel(bytes);
  return bytes;
}

Result<void> KernelSampler::open(const Folder& session, std::size_t memory) {
  auto file = session.create(kSamplesFile);
  if (!file) return tl::unexpected(std::move(file).error());
  file_ = std::move(*file);
  path_ = session.path_of(kSamplesFile);
  room_ = memory;
  rlimit files{};
  (void)::getrlimit(RLIMIT_NOFILE, &files);
  allow_open_files(files.rlim_cur + memory / buffer_size(event_.hz));
  (void)::getrlimit(RLIMIT_NOFILE, &files);
  most_files_ = files.rlim_cur - std::min(files.rlim_cur, kFilesForOthers);
  return write_all(file_.get(), head(), path_);
}

// After a record that is cut off nothing could be read.
void KernelSampler::write_pending() {
  if (!failed_) {
    if (auto wrote = write_all(file_.get(), pending_, path_); !wrote)
      failed_ = std::move(wrote).error();
  }
  pending_.clear();
}

void KernelSampler::refuse(pid_t thread, std::string_view why) {
  if (ever_refused_.size() >= ThreadTable::kMostThreads) return;
  refused_.insert(thread);
  if (ever_refused_.empty()) first_refusal_ = fmt::format("{}) since: {}", thread, why);
  ever_refused_.insert(thread);
}

void KernelSampler::add(pid_t thread, const Thread& what) {
  const std::size_t size = buffer_size(event_.hz);
  if (room_ < size) return refuse(thread, "no room for its samples: sample less often");
  UniqueFd event = event_.open(thread);
  const int cause = errno;
  if (!event && cause == ESRCH) return;  // it has ended
  if (!event) return refuse(thread, refusal(cause, event_.hz).value().message);
  // The kernel gives the lowest that is free: those above stay so.
  if (static_cast<rlim_t>(event.get()) >= most_files_)
    return refuse(thread, "no descriptor for its event: raise ulimit -n");
  auto buffer = SampleBuffer::map(std::move(event), size);
  if (!buffer) return refuse(thread, buffer.error().message);
  room_ -= size;
  timespec now{};
  (void)::clock_gettime(event_.clock, &now);
  pending_ += name_record(
      thread, what,
      static_cast<std::uint64_t>(now.tv_sec) * kSecond + static_cast<std::uint64_t>(now.tv_nsec));
  buffer->enable();
  buffers_.emplace(thread, std::move(*buffer));
}

// The event of a thread that has ended hangs up, also where another thread has its id by now.
bool KernelSampler::let_ended_go() {
  const std::size_t before = buffers_.size();
  std::vector<pollfd> events;
  for (const auto& [thread, buffer] : buffers_) events.push_back({buffer.event(), 0, 0});
  if (::poll(events.data(), events.size(), 0) > 0) {
    auto event = events.begin();
    for (auto one = buffers_.begin(); one != buffers_.end(); ++event) {
      const bool ended = (event->revents & POLLHUP) != 0;
      if (ended) {
        take(one->second);
        room_ += buffer_size(event_.hz);
      }
      one = ended ? buffers_.erase(one) : std::next(one);
    }
  }
  std::erase_if(refused_, [](pid_t thread) { return !is_there(fmt::format("/proc/{}", thread)); });
  return buffers_.size() != before;
}

void KernelSampler::follow(const std::map<pid_t, Thread>& threads) {
  if (let_ended_go()) refused_.clear();  // there is room again
  for (const auto& [thread, what] : threads) {
    if (buffers_.contains(thread) || refused_.contains(thread)) continue;
    if (is_there(fmt::format("/proc/{}", thread))) add(thread, what);
  }
}

void KernelSampler::take(SampleBuffer& buffer) {
  const std::size_t before = pending_.size();
  buffer.take(pending_);
  counts_.add(std::string_view(pending_).substr(before));
  if (pending_.size() >= kWriteAt) write_pending();
}

// After a round nothing comes that is older than what the round before it held.
Result<void> KernelSampler::drain() {
  for (auto& [thread, buffer] : buffers_) take(buffer);
  append(pending_, kFinishedRound);
  append(pending_, std::uint16_t{0});
  append(pending_, std::uint16_t{8});
  write_pending();
  if (failed_) return tl::unexpected(*failed_);
  return {};
}

Result<void> KernelSampler::stop() {
  for (const auto& [thread, buffer] : buffers_) buffer.disable();
  auto drained = drain();
  buffers_.clear();
  return drained;
}

Result<void> KernelSampler::close() {
  if (file_ && ::fdatasync(file_.get()) != 0) return fail("{}: {}", path_, std::strerror(errno));
  file_.reset();
  return {};
}

std::string KernelSampler::warning() const {
  std::vector<std::string> parts;
  if (!ever_refused_.empty())
    parts.push_back(fmt::format("{} threads lack samples, the first ({}", ever_refused_.size(),
                                first_refusal_));
  if (counts_.lost != 0)
    parts.push_back(fmt::format("{} samples were lost, their buffers were full: sample less often",
                                counts_.lost));
  if (counts_.throttled != 0)
    parts.push_back(fmt::format(
        "{} times the kernel paused the samples of a thread (throttled): sample less often",
        counts_.throttled));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace trapline::record
