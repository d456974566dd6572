// Handles what happens to a vCPU outside its instructions: start, idling, interrupts, the end.
#include "plugin/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace trapline {

Session* session = nullptr;
std::array<CallTracker*, Session::kMaxVcpus> trackers{};

void SitePool::grow() {
  table_.assign(std::max<std::size_t>(1024, table_.size() * 2), 0);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t i = 0; i < sites_.size(); ++i) {
    std::size_t at = hash(sites_[i]) & mask;
    while (table_[at] != 0) at = (at + 1) & mask;
    table_[at] = i + 1;
  }
}

const Site* SitePool::keep(const Site& site) {
  if (sites_.size() * 4 >= table_.size() * 3) grow();
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash(site) & mask;
  for (; table_[at] != 0; at = (at + 1) & mask) {
    const Site& known = sites_[table_[at] - 1];
    if (known.ret == site.ret && known.function == site.function && known.level == site.level &&
        known.reg == site.reg && known.offset == site.offset)
      return &known;
  }
  if (sites_.size() >= kMost) return nullptr;
  sites_.push_back(site);
  table_[at] = static_cast<std::uint32_t>(sites_.size());
  return &sites_.back();
}

void SitePool::clear() {
  sites_.clear();
  table_.clear();
  grow();
}

// Needs `translation` to be locked.
const Site* Session::keep(const Site& site) {
  const Site* kept = sites.keep(site);
  if (kept != nullptr) return kept;
  if (sites_left_out++ == 0) {
    std::fprintf(stderr,
                 "trapline plugin: the guest has made more than %zu places that call; calls at "
                 "others are not seen until QEMU drops its translated code\n",
                 SitePool::kMost);
    for (const auto& one : vcpus)
      if (Vcpu* vcpu = one.load(); vcpu != nullptr) vcpu->tracker->miss_calls();
  }
  return nullptr;
}

void flushed() {
  Session& s = *session;
  std::scoped_lock lock(s.translation);
  for (const auto& one : s.vcpus)
    if (Vcpu* vcpu = one.load(); vcpu != nullptr) vcpu->delayed = nullptr;
  s.sites.clear();
}

void vcpu_started(unsigned index) {
  Session& s = *session;
  if (index >= Session::kMaxVcpus) {  // the hot callbacks have no place for it
    std::fprintf(
        stderr,
        "trapline plugin: more than %u threads of the program have overlapped, the most that "
        "can be followed; the program ends here, and what it did so far is recorded\n",
        Session::kMaxVcpus);
    ended();
    ::_exit(1);
  }
  if (s.vcpus[index].load() != nullptr) return;
  if (!s.recording) {  // qemu-user has loaded its program now and not yet run it
    if (auto begun = begin_recording(s); !begun) {
      std::fprintf(stderr, "trapline plugin: %s\n", begun.error().message.c_str());
      ::_exit(1);
    }
  }
  auto* vcpu = new Vcpu(index, *s.arch, s.api);
  vcpu->guest.find_registers();
  vcpu->thread = ::pthread_self();
  StackPool* pool = s.shared_stacks.get();
  if (pool == nullptr) {
    vcpu->own_stacks = std::make_unique<StackPool>(false, &s.frames);
    pool = vcpu->own_stacks.get();
  }
  TrackerOptions options = s.tracker_options;
  s.recording->write_vcpu(index);
  if (s.markers) {
    s.markers->add_vcpu(index);
    vcpu->markers = std::make_unique<VcpuMarkers>(*s.markers, index);
    options.text = vcpu->markers.get();
  }
  vcpu->tracker_storage =
      std::make_unique<CallTracker>(index, vcpu->guest, *s.recording, *s.filter, *pool, options);
  vcpu->tracker = vcpu->tracker_storage.get();
  vcpu->tracker->use_clock(s.clock);
  std::scoped_lock lock(s.translation);
  if (!s.translation_guest) {
    s.translation_guest = std::make_unique<Guest>(*s.arch, s.api);
    s.translation_guest->share(vcpu->guest);
  }
  if (!s.switched_on.value_or(!s.has_start)) vcpu->tracker->set_recording(false);
  if (s.sites_left_out != 0) vcpu->tracker->miss_calls();
  trackers[index] = vcpu->tracker;
  s.vcpus[index].store(vcpu);
}

namespace {

void add(TrackerCounters& total, const TrackerCounters& c) {
  total.calls += c.calls;
  total.returns += c.returns;
  total.unmatched_returns += c.unmatched_returns;
  total.unwound += c.unwound;
  total.events += c.events;
  total.tail_calls += c.tail_calls;
  total.stack_switches += c.stack_switches;
}

// Removes a vCPU; the next thread may get its number.
void forget(Session& s, Vcpu* vcpu) {
  add(s.ended_counters, vcpu->tracker->counters());
  s.vcpus[vcpu->index].store(nullptr);
  trackers[vcpu->index] = nullptr;
  delete vcpu;
}

}  // namespace

void vcpu_ended(unsigned index) {
  Session& s = *session;
  if (index >= Session::kMaxVcpus || s.ended) return;
  std::scoped_lock lock(s.translation);
  Vcpu* vcpu = s.vcpus[index].load();
  if (vcpu == nullptr) return;
  vcpu->tracker->close_all();
  if (vcpu->markers) (void)vcpu->markers->say_losses();
  forget(s, vcpu);
}

// Flushes before execve: if the call succeeds, nothing in this process can write the buffered
// records.
void system_called(unsigned index, std::int64_t number) {
  Session& s = *session;
  const auto& calls = s.arch->exec_calls;
  if (index >= Session::kMaxVcpus || s.ended || s.vcpus[index].load() == nullptr ||
      std::find(calls.begin(), calls.end(), number) == calls.end())
    return;
  s.vcpu(index).tracker->task()->buffer.flush();
}

void before_fork() {
  session->translation.lock();
  if (session->recording) session->recording->before_fork();
}

// Runs in the new process after a fork, which has only the thread that forked.
void forked() {
  Session& s = *session;
  s.translation.unlock();
  if (!s.recording || s.ended) return;
  s.recording->forked();
  for (auto& one : s.vcpus) {
    Vcpu* vcpu = one.load();
    if (vcpu == nullptr) continue;
    vcpu->tracker->begin_anew();
    if (::pthread_equal(vcpu->thread, ::pthread_self()) == 0) forget(s, vcpu);
  }
}

// Flushes when the guest idles, so that the files contain what it did so far.
void vcpu_idle(unsigned index) {
  Session& s = *session;
  if (index >= Session::kMaxVcpus || s.vcpus[index].load() == nullptr || s.ended) return;
  Vcpu& vcpu = s.vcpu(index);
  constexpr std::uint64_t kInterval = 200'000'000;
  const std::uint64_t now = vcpu.tracker->clock().now();
  if (now - vcpu.last_flush < kInterval) return;
  vcpu.last_flush = now;
  vcpu.tracker->clock().adjust();
  vcpu.tracker->task()->buffer.flush();
}

void write_syncs(Vcpu& vcpu) {
  session->recording->write_guest_syncs(vcpu.syncs);
  vcpu.syncs.clear();
  vcpu.tracker->clock().adjust();
}

void discontinuity(unsigned index, int type, std::uint64_t from, std::uint64_t to) {
  Session& s = *session;
  if (type == qemu::kHostCall || s.ended) return;
  // x86 also reports events that never reach a handler (the end of a halt) or that were reported
  // before.
  if (from == to || !s.follows(to)) return;
  Vcpu& vcpu = s.vcpu(index);
  vcpu.target = 0;
  vcpu.tracker->event(vcpu.guest.level(), to);
}

void ended() {
  Session& s = *session;
  if (s.ended.exchange(true) || !s.recording) return;
  if (s.user_mode) name_functions(s);
  std::scoped_lock lock(s.translation);
  TrackerCounters total = s.ended_counters;
  for (unsigned i = 0; i < Session::kMaxVcpus; ++i) {
    Vcpu* vcpu = s.vcpus[i].load();
    if (vcpu == nullptr) continue;
    write_syncs(*vcpu);
    vcpu->tracker->close_all();
    if (vcpu->markers) (void)vcpu->markers->say_losses();
    add(total, vcpu->tracker->counters());
  }
  std::uint64_t records = 0, lost = 0;
  s.recording->for_each_task([&](Task& task) {
    task.buffer.stop();
    records += task.buffer.written();
    lost += task.buffer.lost();
  });
  lost += s.recording->left_out();
  s.recording->finish(s.guest_ran);
  if (!s.guest_ran && !s.told_of_kvm)
    std::fputs(
        "trapline plugin: the guest ran no code that QEMU translated (-accel tcg), and a "
        "plugin sees no other: no function was recorded\n",
        stderr);
  std::string of_markers, of_sites;
  if (s.sites_left_out != 0)
    of_sites = fmt::format(", those at {} places not counted", s.sites_left_out);
  if (s.markers) {
    s.markers->end();
    records += s.markers->written();
    lost += s.markers->lost();
    of_markers =
        fmt::format(" ({} and {} of them markers)", s.markers->written(), s.markers->lost());
  }
  std::fputs(
      fmt::format("trapline plugin: {} records, {} lost{}{}; {} calls, {} tail calls, {} events, "
                  "{} returns, {} unmatched, {} frames unwound, {} stack switches\n",
                  records, lost, of_markers, of_sites, total.calls, total.tail_calls, total.events,
                  total.returns, total.unmatched_returns, total.unwound, total.stack_switches)
          .c_str(),
      stderr);
}

}  // namespace trapline
