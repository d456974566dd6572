// Reads a perf.data as a source: perf record of tracepoints, or perf kvm stat record, in a file or
// from a pipe. A tracepoint's sample holds the same record of the event as ftrace's buffer, and the
// file has the event's format, so the sample is decoded like an event of a trace.dat.
//
//   file → RecordReader → sample, lost, comm, fork → RecordOrder → decode → Event
//
// Losses (LOST, THROTTLE, and at the end LOST_SAMPLES) are Lost events of their CPU; threads' names
// and processes come from perf's COMM and FORK records. A record that comes later than perf's
// rounds allow is counted as damaged. A file that was cut off is read up to its last whole record
// and ends with an error.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/model/processes.h"
#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/kernel_events/kernel_event_source.h"
#include "merge/source/open_recording.h"
#include "merge/source/perf_data/layout.h"
#include "merge/source/perf_data/record_order.h"
#include "merge/source/perf_data/record_reader.h"

namespace trapline::perf_data {

// The names and processes of threads come from COMM and FORK records. perf writes these for all
// threads that exist when it starts and for each one that is created or renamed later.

struct Fork {
  ThreadId process{}, thread{}, parent{};
  bool same_process = false;  // in the same process as its parent
};

[[nodiscard]] inline std::optional<Fork> parse_fork(std::span<const std::byte> record) {
  ByteCursor cursor(record);
  (void)cursor.take(kRecordHeader);
  const auto number = [&cursor] {
    return static_cast<std::int32_t>(cursor.number<std::uint32_t>().value_or(0));
  };
  const std::int32_t pid = number(), ppid = number(), tid = number(), ptid = number();
  if (cursor.failed()) return std::nullopt;
  return Fork{ThreadId{pid}, ThreadId{tid}, ThreadId{ptid}, pid == ppid};
}

class Threads {
 public:
  static constexpr std::size_t kMost = 1u << 18;

  void on_comm(std::span<const std::byte> record) {
    ByteCursor cursor(record);
    (void)cursor.take(kRecordHeader + 4);
    const auto thread = cursor.number<std::uint32_t>();
    const auto name = cursor.c_string();
    if (name) set_name(ThreadId{static_cast<std::int32_t>(*thread)}, *name);
  }
  // A new thread has its parent's name.
  void on_fork(const Fork& fork) {
    const auto parent = names_.find(fork.parent);
    if (parent != names_.end() && names_.size() < kMost)
      names_.try_emplace(fork.thread, std::string(parent->second));
  }
  [[nodiscard]] std::string name_of(ThreadId thread) const {
    const auto found = names_.find(thread);
    return found == names_.end() ? std::string() : found->second;
  }

 private:
  void set_name(ThreadId thread, std::string_view name) {
    constexpr std::size_t kLongest = 64;
    const auto found = names_.find(thread);
    if (found == names_.end() && names_.size() >= kMost) return;
    names_[thread] = printable(name.substr(0, kLongest));
  }

  std::unordered_map<ThreadId, std::string> names_;
};

// Losses of events, placed between the events around them on their CPU. Records that report them:
//
//   LOST n         n records found no room before the next one of this CPU
//   THROTTLE       events are left out until UNTHROTTLE
//   LOST_SAMPLES   written at the end: how many records of one event were lost in all, including
//                  those that no LOST record reports, because nothing came after them

struct Loss {
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
  // Stands for a count that is not known, as after damage; no sum of real counts reaches it.
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
};

class Losses {
 public:
  static constexpr std::uint32_t kMostCpus = 1u << 16;

  // Returns the loss between the CPU's last event and this one, if there is one.
  [[nodiscard]] std::optional<Loss> on_event(std::uint32_t cpu, std::uint64_t time) {
    Cpu& one = of(cpu);
    const std::uint64_t before = one.last;
    one.last = time;
    if (one.pending == 0) [[likely]]
      return std::nullopt;
    return Loss{before, std::max(time, before), std::exchange(one.pending, 0)};
  }
  // Handles damage, which may hide events of each CPU.
  void on_skipped(std::uint32_t cpus) {
    if (cpus > cpus_.size()) cpus_.resize(std::min(cpus, kMostCpus));
    for (Cpu& one : cpus_) one.pending = Loss::kUnknown;
  }
  void on_lost(std::uint32_t cpu, std::uint64_t count) {
    Cpu& one = of(cpu);
    one.pending = saturated_sum(one.pending, count);
    told_ = saturated_sum(told_, count);
  }
  // Adds lost samples to the total. perf does not say on which CPU they were lost.
  void on_lost_samples(std::uint64_t count) { in_all_ = saturated_sum(in_all_, count); }
  void on_throttle(std::uint32_t cpu, std::uint64_t time) { of(cpu).throttled = time; }
  [[nodiscard]] Loss on_unthrottle(std::uint32_t cpu, std::uint64_t time) {
    const std::uint64_t from = of(cpu).throttled.value_or(of(cpu).last);
    of(cpu).throttled.reset();
    return {from, time > from ? time : from, 0};
  }
  // Returns the CPU's loss that lasts until the recording's end, if there is one.
  [[nodiscard]] std::optional<Loss> at_end(std::uint32_t cpu, std::uint64_t end) const {
    const Cpu& one = cpus_[cpu];
    if (one.pending == 0 && !one.throttled) return std::nullopt;
    return Loss{one.pending == 0 ? *one.throttled : one.last, end, one.pending};
  }
  // Returns how many lost events no LOST record reported, because no event came after them.
  [[nodiscard]] std::uint64_t untold() const { return in_all_ > told_ ? in_all_ - told_ : 0; }
  [[nodiscard]] std::uint32_t cpus() const { return static_cast<std::uint32_t>(cpus_.size()); }

 private:
  struct Cpu {
    std::uint64_t last = 0;  // time of the CPU's last event
    std::uint64_t pending = 0;
    std::optional<std::uint64_t> throttled;
  };
  [[nodiscard]] Cpu& of(std::uint32_t cpu) {
    if (cpu >= cpus_.size()) [[unlikely]]
      cpus_.resize(cpu + 1);
    return cpus_[cpu];
  }
  std::vector<Cpu> cpus_;
  std::uint64_t told_ = 0, in_all_ = 0;
};

namespace {

using kernel_events::RecordedEvent;

// Returns the attr of a record, found by its id.
std::uint16_t attr_of(const Layout& layout, const Record& record) {
  constexpr std::uint64_t kHasId = kId | kIdentifier;
  if ((layout.attrs.front().sample_type & kHasId) == 0) return 0;  // all attrs have the same fields
  const auto id = layout.shapes.front().id(record.bytes, record.type == RecordType::kSample);
  if (!id) return AttrsById::kNone;
  const std::uint16_t attr = layout.by_id.find(*id);
  // An unknown id does not matter if there is one attr, or if the first attr is a tracepoint: the
  // fields of a tracepoint identify its event.
  const bool is_first =
      layout.attrs.size() == 1 ||
      (layout.attrs.front().tracepoint && (layout.attrs.front().sample_type & kIdentifier) == 0);
  return attr == AttrsById::kNone && is_first ? 0 : attr;
}

enum class Look : std::uint8_t { kSample, kOther, kDamaged };

// Parses the sample of a tracepoint; returns kOther for samples of other events.
Look sample_of(const Layout& layout, const Record& record, Sample& sample) {
  const std::uint16_t attr = attr_of(layout, record);
  if (attr == AttrsById::kNone) return Look::kDamaged;
  if (!layout.attrs[attr].tracepoint) return Look::kOther;
  if (!layout.shapes[attr].sample(record.bytes, sample) || sample.cpu >= Losses::kMostCpus)
    return Look::kDamaged;
  return sample.raw.empty() ? Look::kDamaged : Look::kSample;
}

RecordedEvent recorded_of(std::uint64_t time, const std::byte* data, std::size_t size) {
  return {time, data, static_cast<std::uint32_t>(size)};
}

class PerfDataSource final : public kernel_events::KernelEventSource {
 public:
  PerfDataSource(File file, Layout layout, kernel_events::Formats formats, SourceInfo info)
      : KernelEventSource(std::move(formats), std::move(info), {}, true),
        file_(std::move(file)),
        layout_(std::move(layout)),
        order_(pool_) {
    (void)open_range(0);
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    auto again = std::make_unique<PerfDataSource>(file_, layout_, formats_, info_);
    again->capabilities_ = capabilities_;
    again->processes_ = processes_;
    again->one_way_ = one_way_;
    return again;
  }

  // Reads until the recording's capabilities are known: to the end if there is no kvm_exit, without
  // which exits are modelled differently. Also finds the processes of threads that are older than
  // the recording, and whether it is of some threads alone (`perf record -p`): then it has the
  // switches away from them, and not those to them, so that no time between them is known.
  [[nodiscard]] Result<void> look() {
    constexpr std::uint64_t kLook = 1u << 16, kSwitches = 64, kFewestAway = 16;
    const int type = formats_.type(events::sched_switch);
    std::map<ThreadId, std::uint64_t> away, to;
    std::uint64_t switches = 0;
    kernel_events::CapabilityLooker looker(formats_);
    processes_ = {};
    std::uint64_t samples = 0, events = 0;
    for (Record record; next_record(record);) {
      if (record.type != RecordType::kSample) {
        const bool of_old = record.type == RecordType::kFork && samples == 0 && range_ == 0;
        if (const auto fork = of_old ? parse_fork(record.bytes) : std::nullopt)
          processes_.set(fork->thread, fork->process);
        continue;
      }
      ++samples;
      Sample sample;
      if (sample_of(layout_, record, sample) != Look::kSample) continue;
      const RecordedEvent recorded = recorded_of(sample.time, sample.raw.data(), sample.raw.size());
      looker.look(recorded);
      Event event;
      const bool is_read = recorded.size >= kernel_events::kCommonFields &&
                           formats_.type_of(recorded.data) == type &&
                           formats_.decode(recorded, event);
      if (const auto* change = is_read ? std::get_if<SchedSwitch>(&event.payload) : nullptr) {
        ++away[change->prev];
        ++to[change->next];
        ++switches;
      }
      ++events;
      const bool is_enough = type < 0 || switches >= kSwitches;
      if ((looker.is_complete() && is_enough) || (events >= kLook && looker.found().kvm_exit))
        break;
    }
    std::uint64_t left = 0, came = 0;
    for (const auto& [thread, count] : away) {
      if (thread == ThreadId{}) continue;
      left += count;
      if (const auto found = to.find(thread); found != to.end()) came += found->second;
    }
    one_way_ = left >= kFewestAway && came < left / 2;
    capabilities_ = looker.found();
    capabilities_.moves |= layout_.cpu_count == 1;
    capabilities_.sched_switch &= !one_way_;
    capabilities_.wakeups &= !one_way_;
    const Result<void> status = records_->status();
    (void)open_range(0);
    if (events != 0) return {};
    if (!status) return status;
    return fail(ErrorKind::kDamaged,
                "{}: holds no events of its tracepoints; did they occur while it was recorded?",
                file_.path());
  }

  [[nodiscard]] Read take(Event& event) override {
    while (status_) {
      Item item;
      while (order_.next(item))
        if (give_out(item, event)) return Read::kEvent;
      if (fill()) continue;
      if (!status_) break;
      status_ = !records_->status() ? records_->status()
                : !order_.status()  ? order_.status()
                                    : layout_.damage;
      break;
    }
    return Read::kEnd;
  }
  [[nodiscard]] double progress() const override {
    const std::uint64_t begin = layout_.ranges.front().begin;
    const std::uint64_t all = std::min(layout_.ranges.back().end, file_.size()) - begin;
    return all == 0 ? 1
                    : static_cast<double>(records_->position() - begin) / static_cast<double>(all);
  }
  [[nodiscard]] Description describe() const override {
    Description is = Source::describe();
    is.machine.name = layout_.host;
    // The text has trace-cmd's format, so that a recording of perf and one of trace-cmd can be
    // compared for the same kernel.
    if (!layout_.host.empty() && !layout_.release.empty() && !layout_.arch.empty())
      is.machine.system =
          fmt::format("Linux {} {} {}", layout_.host, layout_.release, layout_.arch);
    is.machine.cpus = layout_.cpu_count;
    is.processes = processes_;
    return is;
  }
  [[nodiscard]] std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    if (!layout_.sample_times) return std::nullopt;
    return std::pair(Timestamp(layout_.sample_times->first),
                     Timestamp(layout_.sample_times->second));
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    std::vector<std::pair<std::string, std::string>> facts = {
        {"format", fmt::format("perf.data{}{}", layout_.from_pipe ? " from a pipe" : "",
                               layout_.compressed ? ", zstd" : "")}};
    if (!layout_.release.empty()) {
      facts.emplace_back(
          "host", fmt::format("Linux {} {} {}", layout_.host, layout_.release, layout_.arch));
    }
    if (!layout_.writer.empty()) facts.emplace_back("recorded by", "perf " + layout_.writer);
    if (layout_.cpu_count != 0) facts.emplace_back("CPUs", std::to_string(layout_.cpu_count));
    if (layout_.to_wall_clock) {
      facts.emplace_back("wall clock",
                         fmt::format("{} + {} ns, or more", layout_.clock, *layout_.to_wall_clock));
    }
    if (one_way_)
      facts.emplace_back("switches",
                         "only those away from the recorded threads, which are not "
                         "used: perf record -a has all");
    std::ranges::move(KernelEventSource::facts(), std::back_inserter(facts));
    return facts;
  }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    return std::holds_alternative<NewThread>(event.payload) && event.raw.empty()
               ? "fork"
               : KernelEventSource::event_name(event);
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    const auto* made = std::get_if<NewThread>(&event.payload);
    if (made == nullptr || !event.raw.empty()) return KernelEventSource::event_text(event);
    return fmt::format("thread {} of {}", tid_of(made->child),
                       made->same_process ? "the same process" : "a new process");
  }
  [[nodiscard]] std::string name_of(ThreadId thread) const override {
    if (thread == ThreadId{0}) return KernelEventSource::name_of(thread);
    std::string name = threads_.name_of(ThreadId{tid_of(thread)});
    return name.empty() ? KernelEventSource::name_of(thread) : name;
  }

 private:
  bool open_range(std::size_t number) {
    if (number >= layout_.ranges.size()) return false;
    range_ = number;
    records_.emplace(file_, pool_, layout_.ranges[number].begin, layout_.ranges[number].end);
    return true;
  }
  [[nodiscard]] bool next_record(Record& record) {
    do {
      if (records_->next(record)) return true;
    } while (records_->status() && open_range(range_ + 1));
    return false;
  }
  // Reads up to the end of a round; false at the end of the file or after a failure.
  [[nodiscard]] bool fill() {
    if (ended_) return false;
    const Block* block = nullptr;
    for (Record record; next_record(record);) {
      if (records_->take_skipped() != 0) [[unlikely]]
        on_skipped();
      if (record.type == RecordType::kSample) [[likely]] {
        on_sample(record);
      } else if (record.type == RecordType::kFinishedRound && layout_.ranges.size() == 1) {
        order_.end_round();
        return true;
      } else {
        on_other(record);
      }
      // Calls is_full() once per block, because the records of one block need little memory.
      if (std::exchange(block, record.block) != record.block && order_.is_full()) [[unlikely]] {
        if (auto spilled = order_.spill(); !spilled) {
          status_ = std::move(spilled);
          return false;
        }
      }
    }
    end();
    return true;
  }
  // Handles bytes before the last record that are no records: events of any CPU may be lost.
  void on_skipped() {
    losses_.on_skipped(layout_.cpu_count);
    layout_.damage =
        fail(ErrorKind::kDamaged,
             "{}: damaged: bytes before offset {} are no records, and the events there are lost; "
             "what else is there was read; copy it again, or record again",
             file_.path(), records_->position());
  }
  void on_sample(const Record& record) {
    Sample sample;
    const Look look = sample_of(layout_, record, sample);
    if (look == Look::kOther) return;
    if (look == Look::kDamaged) losses_.on_skipped(layout_.cpu_count);
    if (look == Look::kDamaged || sample.raw.size() < sizeof(std::uint16_t) ||
        sample.time < order_.limit()) {
      ++counters_.damaged_events;
      return;
    }
    if (const auto loss = losses_.on_event(sample.cpu, sample.time)) add_loss(sample.cpu, *loss);
    newest_ = std::max(newest_, sample.time);
    order_.add({sample.time, sample.raw.data(), record.block,
                static_cast<std::uint32_t>(sample.raw.size()),
                static_cast<std::uint16_t>(sample.cpu), Item::Kind::kEvent});
  }
  void on_other(const Record& record) {
    // PERF_RECORD_MISC_LOST_SAMPLES_BPF: a BPF filter left these samples out, on purpose.
    constexpr std::uint16_t kOfBpf = 1u << 15;
    if (record.type == RecordType::kComm) return threads_.on_comm(record.bytes);
    const std::uint16_t attr = attr_of(layout_, record);
    if (attr == AttrsById::kNone) return;
    const auto trailer = layout_.shapes[attr].trailer(record.bytes);
    if (!trailer || trailer->cpu >= Losses::kMostCpus) return;
    ByteCursor cursor(record.bytes.subspan(kRecordHeader));
    switch (record.type) {
      case RecordType::kLost:
        (void)cursor.number<std::uint64_t>();  // id of the event
        losses_.on_lost(trailer->cpu, cursor.number<std::uint64_t>().value_or(0));
        break;
      case RecordType::kLostSamples:
        if ((record.misc & kOfBpf) != 0) break;
        losses_.on_lost_samples(cursor.number<std::uint64_t>().value_or(0));
        break;
      case RecordType::kThrottle:
        if (layout_.attrs[attr].tracepoint) losses_.on_throttle(trailer->cpu, trailer->time);
        break;
      case RecordType::kUnthrottle:
        if (!layout_.attrs[attr].tracepoint) break;
        add_loss(trailer->cpu, losses_.on_unthrottle(trailer->cpu, trailer->time));
        break;
      case RecordType::kFork: {
        const auto fork = parse_fork(record.bytes);
        if (!fork) break;
        threads_.on_fork(*fork);
        // FORK records of threads older than the recording have the time 0.
        if (trailer->time == 0 || trailer->time < order_.limit()) break;
        order_.add({trailer->time, record.bytes.data(), record.block,
                    static_cast<std::uint32_t>(record.bytes.size()),
                    static_cast<std::uint16_t>(trailer->cpu), Item::Kind::kThread});
        break;
      }
      default:
        break;
    }
  }
  // Stores a loss until its turn, like a record.
  void add_loss(std::uint32_t cpu, const Loss& loss) {
    if (facts_ == nullptr || facts_at_ + sizeof loss > Block::kSize) {
      if (facts_ != nullptr) pool_.release(facts_);
      facts_ = pool_.take();
      facts_at_ = 0;
    }
    std::byte* at = facts_->bytes.get() + facts_at_;
    std::memcpy(at, &loss, sizeof loss);
    facts_at_ += sizeof loss;
    order_.add({std::max(loss.from, order_.limit()), at, facts_, sizeof loss,
                static_cast<std::uint16_t>(cpu), Item::Kind::kLoss});
  }
  void end() {
    ended_ = true;
    for (std::uint32_t cpu = 0; cpu < losses_.cpus(); ++cpu)
      if (const auto loss = losses_.at_end(cpu, newest_)) add_loss(cpu, *loss);
    if (const auto count = losses_.untold(); count != 0) add_loss(0, {newest_, newest_, count});
    order_.end();
  }
  // Fills `event` from the item; false if the item's event is not selected or cannot be read.
  [[nodiscard]] bool give_out(const Item& item, Event& event) {
    const Timestamp at(item.time);
    if (item.kind == Item::Kind::kEvent) [[likely]] {
      const RecordedEvent recorded = recorded_of(item.time, item.data, item.size);
      if (is_unwanted(recorded)) {
        count_unwanted(recorded, at);
        return false;
      }
      decode(recorded, at, item.cpu, event);
      if (one_way_ && std::holds_alternative<SchedSwitch>(event.payload))
        event.payload.emplace<Other>();
      return true;
    }
    if (item.kind == Item::Kind::kLoss) {
      Loss loss;
      std::memcpy(&loss, item.data, sizeof loss);
      fill_lost(item.cpu, Timestamp(loss.from), Timestamp(loss.to),
                static_cast<std::int64_t>(loss.count), event);
      event.at = at;  // not before the time of the last event
      return true;
    }
    const auto fork = parse_fork({item.data, item.size});
    if (!fork) return false;
    event.at = at;
    event.cpu = item.cpu;
    event.thread = fork->parent;
    event.type = 0;
    event.raw = {};
    event.payload = NewThread{fork->thread, fork->same_process};
    return true;
  }

  File file_;
  Layout layout_;
  BlockPool pool_;
  std::optional<RecordReader> records_;
  std::size_t range_ = 0;
  RecordOrder order_;
  Losses losses_;
  Threads threads_;
  Processes processes_;
  Block* facts_ = nullptr;  // a block of losses that wait for their turn, held once by this class
  std::size_t facts_at_ = 0;
  std::uint64_t newest_ = 0;
  bool ended_ = false;
  bool one_way_ = false;  // only switches away from the recorded threads were recorded
};

}  // namespace
}  // namespace trapline::perf_data

namespace trapline {

Result<std::unique_ptr<Source>> open_perf_data(perf_data::Files files) {
  const std::string path = files.file.path();
  auto layout = perf_data::read_layout(files);
  if (!layout) return tl::unexpected(std::move(layout).error());
  auto formats = kernel_events::Formats::parse(path, std::move(layout->tracing.texts));
  if (!formats) return tl::unexpected(std::move(formats).error());
  formats->read_comms(layout->tracing.comms);
  SourceInfo info{.path = path, .kind = "perf.data", .clock = layout->clock};
  auto source = std::make_unique<perf_data::PerfDataSource>(
      std::move(files.file), std::move(*layout), std::move(*formats), std::move(info));
  if (auto looked = source->look(); !looked) return tl::unexpected(std::move(looked).error());
  return source;
}

}  // namespace trapline
