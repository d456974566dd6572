#include "merge/record/sample_event.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/paths.h"
#include "merge/source/perf_data/clocks.h"

namespace trapline::record {
namespace {

constexpr std::uint64_t kSampleType = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                      PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;

UniqueFd open_perf(const perf_event_attr& attr, pid_t thread) {
  perf_event_attr asked = attr;  // the kernel writes its own size into one that is too large
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_perf_event_open, &asked, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

// An NMI takes the counter's samples, and few clocks can be read in one.
void choose_timer(SampleEvent& event, std::string_view clock, unsigned counters,
                  const TryEvent& attempt) {
  if (counters == 1) {
    if (attempt(event.attr()) == 0) return;
    SampleEvent mono = event;
    mono.clock = CLOCK_MONOTONIC;
    if (attempt(mono.attr()) == 0) {
      event.timer_since = fmt::format("perf's counter has no clock '{}'", clock);
      event.advice = "record with --clock mono";
      return;
    }
  }
  event.timer_since = counters > 1 ? "several kinds of cores here, each with a counter of its own"
                                   : "no counter of cycles here";
  event.advice = "code with interrupts off has none, and each is one more exit of a running guest";
}

}  // namespace

// As perf tells them from the counters of other parts of the machine: "cpu" where there is one
// kind, else those that have a list of their CPUs.
unsigned core_counters(const std::string& root) {
  const std::string devices = root + "/sys/bus/event_source/devices";
  unsigned count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator one(devices, error), end; !error && one != end;
       one.increment(error)) {
    if (one->path().filename() == "cpu" || is_there(one->path() / "cpus")) ++count;
  }
  return count;
}

int try_event(const perf_event_attr& attr) { return open_perf(attr, 0) ? 0 : errno; }

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

Result<SampleEvent> SampleEvent::choose(unsigned hz, std::string_view clock, unsigned counters,
                                        const TryEvent& attempt) {
  const auto known = std::ranges::find(kPerfClocks, clock, &PerfClock::name);
  if (known == kPerfClocks.end()) {
    return fail(ErrorKind::kUsage,
                "--kernel-samples: perf has no clock '{}'; record with --clock mono, mono_raw, "
                "boot or tai",
                clock);
  }
  SampleEvent event{hz, known->id, "", ""};
  choose_timer(event, clock, counters, attempt);
  if (!event.by_timer()) return event;
  if (const int cause = attempt(event.attr()); cause != 0) return refusal(cause, hz);
  return event;
}

// The counter's interrupts end where a guest runs; those of a timer do not.
perf_event_attr SampleEvent::attr() const {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = by_timer() ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE;
  attr.config =
      by_timer() ? std::uint64_t{PERF_COUNT_SW_CPU_CLOCK} : std::uint64_t{PERF_COUNT_HW_CPU_CYCLES};
  attr.exclude_guest = by_timer() ? 0 : 1;
  attr.disabled = 1;
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

UniqueFd SampleEvent::open(pid_t thread) const { return open_perf(attr(), thread); }

Result<SampleBuffer> SampleBuffer::map(UniqueFd event, std::size_t data) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, page + data, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(), 0);
  if (pages == MAP_FAILED) {
    return fail("{}", errno == EPERM || errno == ENOMEM
                          ? "no memory for its buffer: raise ulimit -l, or as root "
                            "kernel.perf_event_mlock_kb"
                          : std::strerror(errno));
  }
  return SampleBuffer(std::move(event), static_cast<std::byte*>(pages), data);
}

SampleBuffer::SampleBuffer(SampleBuffer&& other) noexcept
    : event_(std::move(other.event_)),
      pages_(std::exchange(other.pages_, nullptr)),
      data_(other.data_) {}

SampleBuffer::~SampleBuffer() {
  if (pages_ != nullptr)
    ::munmap(pages_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + data_);
}

void SampleBuffer::enable() const { ::ioctl(event_.get(), PERF_EVENT_IOC_ENABLE, 0); }

void SampleBuffer::disable() const { ::ioctl(event_.get(), PERF_EVENT_IOC_DISABLE, 0); }

// perf_event_mmap_page: the kernel writes data_head after the data, and reads data_tail.
void SampleBuffer::take(std::string& into) {
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

}  // namespace trapline::record
