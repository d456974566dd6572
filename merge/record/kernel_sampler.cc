#include "merge/record/kernel_sampler.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

constexpr std::uint32_t kHeaderAttr = 64, kFinishedRound = 68;  // perf's own records
constexpr std::uint64_t kSampleType = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                      PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;

struct Clock {
  std::string_view trace;  // as trace_clock names it
  std::int32_t id;
};
constexpr std::array<Clock, 4> kClocks = {{{"mono", CLOCK_MONOTONIC},
                                           {"mono_raw", CLOCK_MONOTONIC_RAW},
                                           {"boot", CLOCK_BOOTTIME},
                                           {"tai", CLOCK_TAI}}};

template <typename T>
void append(std::string& bytes, T number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// A text with zeros up to a multiple of eight bytes, one at least.
void append_name(std::string& bytes, std::string_view name) {
  bytes.append(name.substr(0, 200));
  bytes.append(8 - std::min<std::size_t>(name.size(), 200) % 8, '\0');
}

// With the fields that sample_id_all puts after each record: thread, time, CPU. The time is that of
// the beginning.
void append_record(std::string& bytes, std::uint32_t type, std::uint16_t misc,
                   const std::string& body, pid_t process, pid_t thread) {
  constexpr std::size_t kFrame = 8 + 24;
  append(bytes, type);
  append(bytes, misc);
  append(bytes, static_cast<std::uint16_t>(body.size() + kFrame));
  bytes += body;
  append(bytes, static_cast<std::uint32_t>(process));
  append(bytes, static_cast<std::uint32_t>(thread));
  append(bytes, std::uint64_t{0});
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
  append_record(bytes, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, body, 0, 0);
}

std::optional<std::uint64_t> symbol_in(std::string_view kallsyms, std::string_view name) {
  const auto at = kallsyms.find(name);
  if (at == kallsyms.npos) return std::nullopt;
  const auto line = kallsyms.rfind('\n', at);
  const auto begin = line == kallsyms.npos ? 0 : line + 1;
  return parse_number(
      fmt::format("0x{}", kallsyms.substr(begin, kallsyms.find(' ', begin) - begin)));
}

// Nothing where addresses are hidden.
void append_kernel(std::string& bytes) {
  const std::string kallsyms = read_text("/proc/kallsyms").value_or("");
  const auto text = symbol_in(kallsyms, " T _text\n"), end = symbol_in(kallsyms, " T _etext\n");
  if (text.value_or(0) == 0 || end.value_or(0) <= *text) return;
  append_map(bytes, *text, *end - *text, *text, "[kernel.kallsyms]_text");
  // "kvm 1400832 1 kvm_amd, Live 0xffffffffc0a00000"
  const std::string modules = read_text("/proc/modules").value_or("");
  for (std::string_view rest = modules; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto name = line.find(' '), size = line.find(' ', name + 1), address = line.find(" 0x");
    if (address == line.npos || size > address) continue;
    const auto begin =
        parse_number(line.substr(address + 1, line.find(' ', address + 1) - address - 1));
    const auto bytes_of = parse_number(line.substr(name + 1, size - name - 1));
    if (begin.value_or(0) == 0 || !bytes_of) continue;
    append_map(bytes, *begin, *bytes_of, 0, fmt::format("[{}]", line.substr(0, name)));
  }
}

perf_event_attr attr_of(unsigned hz, std::int32_t clock, bool by_timer) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = by_timer ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE;
  attr.config =
      by_timer ? std::uint64_t{PERF_COUNT_SW_CPU_CLOCK} : std::uint64_t{PERF_COUNT_HW_CPU_CYCLES};
  attr.freq = 1;
  attr.sample_freq = hz;
  attr.sample_type = kSampleType;
  attr.sample_id_all = 1;
  attr.exclude_user = 1;
  attr.exclude_callchain_user = 1;
  attr.use_clockid = 1;
  attr.clockid = clock;
  return attr;
}

UniqueFd open_perf(perf_event_attr& attr, pid_t thread) {
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

tl::unexpected<Error> refusal(int cause, unsigned hz) {
  if (cause == EACCES || cause == EPERM)
    return fail(
        "--kernel-samples: perf may not sample the kernel here; record as root, or as root: sysctl "
        "kernel.perf_event_paranoid=1");
  if (cause == EINVAL)
    return fail(ErrorKind::kUsage,
                "--kernel-samples {}: the kernel takes fewer samples a second at most; cat "
                "/proc/sys/kernel/perf_event_max_sample_rate tells how many",
                hz);
  return fail("--kernel-samples: perf_event_open: {}", std::strerror(cause));
}

}  // namespace

Result<KernelSampler::Buffer> KernelSampler::Buffer::map(UniqueFd event, std::size_t data) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, page + data, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(), 0);
  if (pages == MAP_FAILED) {
    return fail("{}", errno == EPERM || errno == ENOMEM
                          ? "no memory for its buffer: raise ulimit -l, or as root "
                            "kernel.perf_event_mlock_kb"
                          : std::strerror(errno));
  }
  return Buffer(std::move(event), static_cast<std::byte*>(pages), data);
}

KernelSampler::Buffer::Buffer(Buffer&& other) noexcept
    : event_(std::move(other.event_)),
      pages_(std::exchange(other.pages_, nullptr)),
      data_(other.data_) {}

KernelSampler::Buffer::~Buffer() {
  if (pages_ != nullptr)
    ::munmap(pages_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + data_);
}

// perf_event_mmap_page: the kernel writes data_head after the data, and reads data_tail.
void KernelSampler::Buffer::take(std::string& into) {
  auto* control = reinterpret_cast<perf_event_mmap_page*>(pages_);
  const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
  const std::uint64_t tail = control->data_tail;
  const char* data = reinterpret_cast<const char*>(pages_) + control->data_offset;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(head - tail, data_));
  const auto at = static_cast<std::size_t>(tail & (data_ - 1));
  const std::size_t first = std::min(size, data_ - at);
  into.append(data + at, first);
  into.append(data, size - first);
  __atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
}

void KernelSampler::Buffer::disable() const { ::ioctl(event_.get(), PERF_EVENT_IOC_DISABLE, 0); }

Result<KernelSampler> KernelSampler::make(unsigned hz, std::string_view clock) {
  const auto known = std::ranges::find(kClocks, clock, &Clock::trace);
  if (known == kClocks.end()) {
    return fail(ErrorKind::kUsage,
                "--kernel-samples: perf has no clock '{}'; record with --clock mono, mono_raw, "
                "boot or tai",
                clock);
  }
  KernelSampler sampler(hz, known->id);
  // A machine without a counter of cycles refuses it, as does one whose clock no NMI can read.
  perf_event_attr attr = attr_of(hz, known->id, false);
  if (!open_perf(attr, 0)) {
    sampler.by_timer_ = true;
    attr = attr_of(hz, known->id, true);
    if (!open_perf(attr, 0)) return refusal(errno, hz);
  }
  return sampler;
}

// perf's header of a pipe, the attr, and where the kernel's code is.
std::string KernelSampler::head() const {
  std::string bytes = "PERFILE2";
  append(bytes, std::uint64_t{16});
  const perf_event_attr attr = attr_of(hz_, clock_, by_timer_);
  append(bytes, kHeaderAttr);
  append(bytes, std::uint16_t{0});
  append(bytes, static_cast<std::uint16_t>(8 + sizeof attr));
  append(bytes, attr);
  append_kernel(bytes);
  return bytes;
}

Result<void> KernelSampler::open(const Folder& session) {
  auto file = session.create(kSamplesFile);
  if (!file) return tl::unexpected(std::move(file).error());
  file_ = std::move(*file);
  path_ = session.path_of(kSamplesFile);
  return write(head());
}

Result<void> KernelSampler::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return fail("{}: {}", path_, std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

void KernelSampler::add(pid_t thread, const Thread& what) {
  perf_event_attr attr = attr_of(hz_, clock_, by_timer_);
  UniqueFd event = open_perf(attr, thread);
  const int cause = errno;
  if (!event && cause == ESRCH) return;  // it has ended
  // Half a second of samples with stacks of average depth, and as much again.
  const std::size_t data = std::bit_ceil(std::max<std::size_t>(64u << 10, std::size_t{hz_} * 256));
  auto buffer = event ? Buffer::map(std::move(event), data) : Result<Buffer>(refusal(cause, hz_));
  if (!buffer) {
    refused_.emplace(thread, buffer.error().message);
    return;
  }
  buffers_.emplace(thread, std::move(*buffer));
  std::string body;
  append(body, static_cast<std::uint32_t>(what.pid));
  append(body, static_cast<std::uint32_t>(thread));
  append_name(body, what.name);
  append_record(pending_, PERF_RECORD_COMM, 0, body, what.pid, thread);
}

void KernelSampler::follow(const std::map<pid_t, Thread>& threads) {
  for (auto one = buffers_.begin(); one != buffers_.end();) {
    const bool runs = is_there(fmt::format("/proc/{}", one->first));
    if (!runs) take(one->second);
    one = runs ? std::next(one) : buffers_.erase(one);
  }
  for (const auto& [thread, what] : threads) {
    if (buffers_.contains(thread) || refused_.contains(thread)) continue;
    if (!is_there(fmt::format("/proc/{}", thread))) continue;
    if (buffers_.size() >= kMostThreads) {
      if (refused_.size() < kMostThreads) refused_.emplace(thread, "too many threads");
      continue;
    }
    add(thread, what);
  }
}

void KernelSampler::take(Buffer& buffer) {
  const std::size_t before = pending_.size();
  buffer.take(pending_);
  count(std::string_view(pending_).substr(before));
}

void KernelSampler::count(std::string_view records) {
  const auto* data = reinterpret_cast<const std::byte*>(records.data());
  for (std::size_t at = 0; at + 8 <= records.size();) {
    const auto type = load<std::uint32_t>(data + at);
    const auto size = load<std::uint16_t>(data + at + 6);
    if (size < 8 || size > records.size() - at) return;
    if (type == PERF_RECORD_SAMPLE) ++samples_;
    if (type == PERF_RECORD_LOST && size >= 24) lost_ += load<std::uint64_t>(data + at + 16);
    at += size;
  }
}

// After a round nothing comes that is older than what the round before it held.
Result<void> KernelSampler::drain() {
  for (auto& [thread, buffer] : buffers_) take(buffer);
  append(pending_, kFinishedRound);
  append(pending_, std::uint16_t{0});
  append(pending_, std::uint16_t{8});
  return write(std::exchange(pending_, {}));
}

void KernelSampler::stop() {
  for (const auto& [thread, buffer] : buffers_) buffer.disable();
}

Result<void> KernelSampler::close() {
  buffers_.clear();
  if (file_ && ::fdatasync(file_.get()) != 0) return fail("{}: {}", path_, std::strerror(errno));
  file_.reset();
  return {};
}

std::string KernelSampler::warning() const {
  std::string text;
  if (!refused_.empty())
    text = fmt::format("{} threads have no samples, the first ({}) since: {}", refused_.size(),
                       refused_.begin()->first, refused_.begin()->second);
  if (lost_ != 0)
    text += fmt::format("{}{} samples were lost, their buffers were full: sample less often",
                        text.empty() ? "" : "; ", lost_);
  return text;
}

}  // namespace trapline::record
