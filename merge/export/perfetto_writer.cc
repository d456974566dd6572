#include "merge/export/perfetto_writer.h"

#include "backend_ftrace/base/text.h"

namespace trapline::perfetto {
namespace {

using Field = ProtoBuffer::Field;

// Fields of TracePacket.
constexpr Field kFtraceEvents = 1, kProcessTree = 2, kClockSnapshot = 6, kTimestamp = 8,
                kSequenceId = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13,
                kTrackDescriptor = 60, kFirstPacket = 87, kMachineId = 98;
constexpr std::uint64_t kSequence = 1, kStateCleared = 1, kNeedsState = 2;
constexpr Field kTracePacket = 1;

// These fields relate a guest's clock, under the name "global", to the trace's clock, BOOTTIME. A
// ClockSnapshot of the guest would instead make the guest's BOOTTIME the clock of the whole trace.
constexpr Field kFtraceClock = 5, kFtraceTime = 6, kBootTime = 7;  // of FtraceEventBundle
constexpr std::uint64_t kGlobal = 2, kBootClock = 6;

// Negative numbers of 32 bits are encoded with 64 bits.
std::uint64_t extended(std::int64_t number) { return static_cast<std::uint64_t>(number); }

// Begins an FtraceEvent with its time and the thread that was running.
std::size_t begin_event(ProtoBuffer& events, std::uint64_t at, std::int32_t thread) {
  const std::size_t event = events.begin(2);
  events.add(1, at);
  events.add(2, static_cast<std::uint32_t>(thread));
  return event;
}

}  // namespace

Writer::Writer(OutputFile output) : output_(std::move(output)) {
  const std::size_t packet = out_.begin(kTracePacket);
  out_.add(kSequenceId, kSequence);
  out_.add(kSequenceFlags, kStateCleared | kNeedsState);
  out_.add(kFirstPacket, 1);
  const std::size_t snapshot = out_.begin(kClockSnapshot), clock = out_.begin(1);
  out_.add(1, kBootClock);
  out_.add(2, 0);
  out_.end(clock);
  out_.end(snapshot);
  out_.end(packet);
}

std::size_t Writer::begin_packet(std::uint32_t machine) {
  const std::size_t packet = out_.begin(kTracePacket);
  out_.add(kSequenceId, kSequence + machine);
  machine == 0 ? out_.add(kSequenceFlags, kNeedsState) : out_.add(kMachineId, machine);
  return packet;
}

void Writer::end_packet(std::size_t packet) {
  out_.end(packet);
  if (out_.size() >= kPiece) flush();
}

void Writer::flush() {
  output_.write(out_.bytes());
  out_.clear();
}

std::uint64_t Writer::intern(Interned& texts, std::string_view text) {
  const NameId known = texts.ids.find(text);
  const std::uint64_t id = (known != FlatIndex::kNone ? known : texts.ids.id(text)) - Names::kOther;
  if (known != FlatIndex::kNone || id == 0) return id;
  const std::size_t packet = begin_packet(), data = out_.begin(kInternedData),
                    entry = out_.begin(texts.field);
  out_.add(1, id);
  out_.add(2, printable(text));
  out_.end(entry);
  out_.end(data);
  end_packet(packet);
  return id;
}

std::uint64_t Writer::add_track(std::uint64_t parent, std::string_view name, int rank,
                                bool explicit_order, const char* unit) {
  const std::size_t packet = begin_packet(), track = out_.begin(kTrackDescriptor);
  out_.add(1, ++last_track_);
  out_.add(2, printable(name));
  if (parent != 0) out_.add(5, parent);
  if (explicit_order) out_.add(11, 3);
  if (unit != nullptr) {
    const std::size_t counter = out_.begin(8);
    out_.add(6, unit);
    out_.end(counter);
  }
  out_.add(12, extended(rank));
  out_.end(track);
  end_packet(packet);
  return last_track_;
}

void Writer::annotate(const Annotation& annotation) {
  const std::size_t inner = out_.begin(4);
  out_.add(1, annotation.key);
  if (annotation.pointer) {
    out_.add(7, *annotation.pointer);
  } else if (annotation.text.id != 0) {
    out_.add(17, annotation.text.id);
  } else {
    out_.add(6, printable(annotation.text.text));
  }
  out_.end(inner);
}

// Begins a track event, to which the caller adds fields, and returns where the event begins. Nearly
// all packets are track events, so the bytes that they share are copied in two pieces. The first
// piece includes the time, which the next packet often has too, as one slice ends where another
// begins.
[[gnu::always_inline]] inline char* Writer::begin_slice(std::uint64_t track, std::uint64_t at,
                                                        Type type) {
  constexpr char kEvent[8] = {kTrackEvent << 3 | 2, 0, 9 << 3, 0, 11 << 3};
  if (at != head_at_) {
    head_at_ = at;
    head_size_ = ProtoBuffer::put(&head_[kTimeAt], at) - head_.data();
  }
  char* const begin = out_.place_for(64);
  std::memcpy(begin, head_.data(), sizeof head_);
  char* const event = begin + head_size_;
  std::memcpy(event, kEvent, sizeof kEvent);
  event[3] = static_cast<char>(type);
  out_.end_at(ProtoBuffer::put(event + 5, track));
  return event;
}

// Ends a track event that begins at `event` and is at most 127 bytes long, so that each of its two
// lengths is one byte.
[[gnu::always_inline]] inline void Writer::end_slice(char* event) {
  char* const end = out_.place_for(0);
  event[1] = static_cast<char>(end - event - 2);
  event[1 - head_size_] = static_cast<char>(end - event + head_size_ - 2);
  if (out_.size() >= kPiece) [[unlikely]]
    flush();
}

void Writer::end(std::uint64_t track, std::uint64_t at) {
  end_slice(begin_slice(track, at, Type::kEnd));
}

void Writer::event(std::uint64_t track, std::uint64_t at, Type type, const Slice& slice) {
  char* const begin = begin_slice(track, at, type);
  const std::size_t event = static_cast<std::size_t>(begin - out_.bytes().data()) + 2,
                    packet = event - static_cast<std::size_t>(head_size_);
  if (slice.category != 0) out_.add(3, slice.category);
  slice.name.id != 0 ? out_.add(10, slice.name.id) : out_.add(23, printable(slice.name.text));
  for (const Annotation& annotation : slice.annotations) annotate(annotation);
  for (const std::uint64_t flow : slice.flows) out_.add_fixed64(47, flow);
  for (const std::uint64_t flow : slice.ending_flows) out_.add_fixed64(48, flow);
  out_.end(event);
  out_.end(packet);
  if (out_.size() >= kPiece) [[unlikely]]
    flush();
}

void Writer::count(std::uint64_t track, std::uint64_t at, double value) {
  char* const event = begin_slice(track, at, Type::kCounter);  // with room for the value
  out_.add_fixed64(44, std::bit_cast<std::uint64_t>(value));
  end_slice(event);
}

ProtoBuffer& Writer::bundle(std::uint32_t machine, std::uint32_t cpu) {
  const std::uint64_t key = std::uint64_t{machine} << 32 | cpu;
  ProtoBuffer& events = bundles_[key];
  if (events.size() > kPiece) flush_bundle(key, events);
  return events;
}

void Writer::flush_bundle(std::uint64_t key, ProtoBuffer& events) {
  if (events.size() == 0) return;
  const auto machine = static_cast<std::uint32_t>(key >> 32);
  const std::size_t packet = begin_packet(machine), inner = out_.begin(kFtraceEvents);
  out_.add(1, static_cast<std::uint32_t>(key));
  if (machine != 0) out_.add(kFtraceClock, kGlobal);
  out_.add_encoded(events.bytes());
  out_.end(inner);
  end_packet(packet);
  events.clear();
}

void Writer::add_switch(std::uint32_t machine, std::uint32_t cpu, const Switch& change) {
  ProtoBuffer& events = bundle(machine, cpu);
  const std::size_t event = begin_event(events, change.at, change.prev);
  const std::size_t sched = events.begin(4);
  events.add(1, change.prev_comm);
  events.add(2, extended(change.prev));
  events.add(4, extended(change.prev_state));
  events.add(5, change.next_comm);
  events.add(6, extended(change.next));
  events.end(sched);
  events.end(event);
}

void Writer::add_waking(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at,
                        std::int32_t waker, std::int32_t woken, std::string_view comm) {
  ProtoBuffer& events = bundle(machine, cpu);
  const std::size_t event = begin_event(events, at, waker);
  const std::size_t waking = events.begin(20);
  events.add(1, comm);
  events.add(2, extended(woken));
  events.add(4, 1);
  events.end(waking);
  events.end(event);
}

void Writer::add_generic(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at,
                         std::int32_t thread, std::string_view name, std::string_view text) {
  ProtoBuffer& events = bundle(machine, cpu);
  const std::size_t event = begin_event(events, at, thread);
  // A generic event (field 327), because Perfetto takes a print event's text for Android's atrace.
  const std::size_t generic = events.begin(327);
  events.add(1, printable(name));
  const std::size_t field = events.begin(2);
  events.add(1, "text");
  events.add(3, printable(text));
  events.end(field);
  events.end(generic);
  events.end(event);
}

void Writer::add_clocks(std::uint32_t machine, std::uint64_t own, std::uint64_t at) {
  const std::size_t packet = begin_packet(machine), bundle = out_.begin(kFtraceEvents);
  out_.add(1, 0);
  out_.add(kFtraceClock, kGlobal);
  out_.add(kFtraceTime, own);
  out_.add(kBootTime, at);
  out_.end(bundle);
  end_packet(packet);
}

void Writer::add_threads(const std::vector<Thread>& threads) {
  const std::size_t packet = begin_packet(), tree = out_.begin(kProcessTree);
  for (const Thread& thread : threads) {
    if (thread.tid == thread.process) {
      const std::size_t process = out_.begin(1);
      out_.add(1, extended(thread.tid));
      out_.add(3, printable(thread.name));
      out_.end(process);
    }
    const std::size_t entry = out_.begin(2);
    out_.add(1, extended(thread.tid));
    out_.add(2, printable(thread.name));
    out_.add(3, extended(thread.process));
    out_.end(entry);
  }
  out_.end(tree);
  end_packet(packet);
}

Result<void> Writer::finish() {
  for (auto& [key, events] : bundles_) flush_bundle(key, events);
  flush();
  return output_.commit();
}

}  // namespace trapline::perfetto
