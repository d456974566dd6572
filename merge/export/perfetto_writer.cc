#include "merge/export/perfetto_writer.h"

#include "backend_ftrace/base/text.h"

namespace trapline::perfetto {
namespace {

using protozero::pbf_writer;

// TracePacket
constexpr int kProcessTree = 2, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
              kInternedData = 12, kSequenceFlags = 13, kFtraceEvents = 1, kSystemInfo = 45,
              kTrackDescriptor = 60, kFirstPacket = 87, kMachineId = 98;
constexpr std::uint32_t kSequence = 1, kStateCleared = 1, kNeedsState = 2;
constexpr int kTracePacket = 1;

// Text of a protobuf is UTF-8; control characters are made visible.
std::string text_of(std::string_view text) { return printable(text); }

}  // namespace

std::uint64_t Writer::intern(Interned& names, std::string_view name, Added& added) {
  const auto found = names.ids.find(name);
  if (found != names.ids.end()) return found->second;
  if (names.ids.size() >= kMostInterned) return 0;
  const std::uint64_t id = names.ids.size() + 1;
  const auto place = names.ids.emplace(name, id).first;
  added.emplace_back(id, place->first);  // made printable where it is written
  return id;
}

// packet_ holds the packet's own fields; the sequence's are added.
void Writer::write_packet() {
  pbf_writer packet(packet_);
  packet.add_uint32(kSequenceId, kSequence);
  packet.add_uint32(kSequenceFlags, first_ ? kStateCleared | kNeedsState : kNeedsState);
  if (first_) packet.add_bool(kFirstPacket, true);
  first_ = false;
  part_.clear();
  pbf_writer(part_).add_message(kTracePacket, packet_);
  output_.write(part_);
  packet_.clear();
}

std::uint64_t Writer::add_track(std::uint64_t parent, std::string_view name, int rank,
                                bool explicit_order) {
  const std::uint64_t uuid = ++last_track_;
  std::string text;
  pbf_writer track(text);
  track.add_uint64(1, uuid);
  track.add_string(2, text_of(name));
  if (parent != 0) track.add_uint64(5, parent);
  if (explicit_order) track.add_int32(11, 3);
  track.add_int32(12, rank);
  pbf_writer(packet_).add_message(kTrackDescriptor, text);
  write_packet();
  return uuid;
}

std::uint64_t Writer::add_counter(std::uint64_t parent, std::string_view name,
                                  std::string_view unit) {
  const std::uint64_t uuid = ++last_track_;
  std::string text, counter;
  pbf_writer(counter).add_string(6, std::string(unit));
  pbf_writer track(text);
  track.add_uint64(1, uuid);
  track.add_string(2, text_of(name));
  if (parent != 0) track.add_uint64(5, parent);
  track.add_message(8, counter);
  pbf_writer(packet_).add_message(kTrackDescriptor, text);
  write_packet();
  return uuid;
}

void Writer::event(std::uint64_t track, std::uint64_t at, EventType type, const Slice& slice) {
  new_names_.clear();
  new_categories_.clear();
  new_keys_.clear();
  event_.clear();
  {
    pbf_writer event(event_);
    event.add_enum(9, static_cast<std::int32_t>(type));
    event.add_uint64(11, track);
    if (type != EventType::kEnd) {
      const std::uint64_t id = intern(names_, slice.name, new_names_);
      if (id != 0) {
        event.add_uint64(10, id);
      } else {
        event.add_string(23, text_of(slice.name));
      }
      if (!slice.category.empty()) {
        event.add_uint64(3, intern(categories_, slice.category, new_categories_));
      }
      for (const Annotation& annotation : slice.annotations) {
        pbf_writer inner(event, 4);
        inner.add_uint64(1, intern(annotation_names_, annotation.name, new_keys_));
        switch (annotation.kind) {
          case Annotation::Kind::kUint:
            inner.add_uint64(3, annotation.number);
            break;
          case Annotation::Kind::kPointer:
            inner.add_uint64(7, annotation.number);
            break;
          case Annotation::Kind::kText:
            inner.add_string(6, text_of(annotation.text));
            break;
        }
      }
      for (const std::uint64_t flow : slice.flows) event.add_fixed64(47, flow);
      for (const std::uint64_t flow : slice.ending_flows) event.add_fixed64(48, flow);
    }
  }
  pbf_writer packet(packet_);
  packet.add_uint64(kTimestamp, at);
  if (!new_names_.empty() || !new_categories_.empty() || !new_keys_.empty()) {
    pbf_writer interned(packet, kInternedData);
    const auto add = [&interned](int field, const auto& added) {
      for (const auto& [id, name] : added) {
        pbf_writer entry(interned, static_cast<protozero::pbf_tag_type>(field));
        entry.add_uint64(1, id);
        entry.add_string(2, text_of(name));
      }
    };
    add(1, new_categories_);
    add(2, new_names_);
    add(3, new_keys_);
  }
  packet.add_message(kTrackEvent, event_);
  write_packet();
}

void Writer::begin(std::uint64_t track, std::uint64_t at, const Slice& slice) {
  ++slices_;
  event(track, at, EventType::kBegin, slice);
}

void Writer::end(std::uint64_t track, std::uint64_t at) { event(track, at, EventType::kEnd, {}); }

void Writer::instant(std::uint64_t track, std::uint64_t at, const Slice& slice) {
  ++slices_;
  event(track, at, EventType::kInstant, slice);
}

void Writer::count(std::uint64_t track, std::uint64_t at, double value) {
  event_.clear();
  pbf_writer event(event_);
  event.add_enum(9, static_cast<std::int32_t>(EventType::kCounter));
  event.add_uint64(11, track);
  event.add_double(44, value);
  pbf_writer packet(packet_);
  packet.add_uint64(kTimestamp, at);
  packet.add_message(kTrackEvent, event_);
  write_packet();
}

std::string& Writer::bundle(std::uint32_t machine, std::uint32_t cpu) {
  const std::uint64_t key = std::uint64_t{machine} << 32 | cpu;
  std::string& events = bundles_[key];
  if (events.size() > kBundle) flush_bundle(key, events);
  return events;
}

void Writer::flush_bundle(std::uint64_t key, std::string& events) {
  if (events.empty()) return;
  std::string bundle;
  pbf_writer(bundle).add_uint32(1, static_cast<std::uint32_t>(key));
  bundle += events;
  events.clear();
  pbf_writer packet(packet_);
  packet.add_message(kFtraceEvents, bundle);
  const auto machine = static_cast<std::uint32_t>(key >> 32);
  if (machine != 0) packet.add_uint32(kMachineId, machine);
  write_packet();
}

void Writer::add_switch(std::uint32_t machine, std::uint32_t cpu, const Switch& change) {
  pbf_writer events(bundle(machine, cpu));
  pbf_writer event(events, 2);
  event.add_uint64(1, change.at);
  event.add_uint32(2, static_cast<std::uint32_t>(change.prev));
  pbf_writer sched(event, 4);
  sched.add_string(1, text_of(change.prev_comm));
  sched.add_int32(2, change.prev);
  sched.add_int64(4, change.prev_state);
  sched.add_string(5, text_of(change.next_comm));
  sched.add_int32(6, change.next);
}

void Writer::add_waking(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at,
                        std::int32_t waker, std::int32_t woken, std::string_view comm) {
  pbf_writer events(bundle(machine, cpu));
  pbf_writer event(events, 2);
  event.add_uint64(1, at);
  event.add_uint32(2, static_cast<std::uint32_t>(waker));
  pbf_writer waking(event, 20);
  waking.add_string(1, text_of(comm));
  waking.add_int32(2, woken);
  waking.add_int32(4, 1);
}

void Writer::add_generic(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at,
                         std::int32_t thread, std::string_view name, std::string_view text) {
  pbf_writer events(bundle(machine, cpu));
  pbf_writer event(events, 2);
  event.add_uint64(1, at);
  event.add_uint32(2, static_cast<std::uint32_t>(thread));
  // Not a print event: its text would be read as that of Android's atrace.
  pbf_writer generic(event, 327);
  generic.add_string(1, text_of(name));
  pbf_writer field(generic, 2);
  field.add_string(1, "text");
  field.add_string(3, text_of(text));
}

void Writer::add_threads(std::uint32_t machine, const std::vector<Thread>& threads) {
  std::string tree;
  pbf_writer out(tree);
  for (const Thread& thread : threads) {
    if (thread.tid == thread.process) {
      pbf_writer process(out, 1);
      process.add_int32(1, thread.tid);
      process.add_string(3, text_of(thread.name));
    }
    pbf_writer entry(out, 2);
    entry.add_int32(1, thread.tid);
    entry.add_string(2, text_of(thread.name));
    entry.add_int32(3, thread.process);
  }
  pbf_writer packet(packet_);
  packet.add_message(kProcessTree, tree);
  if (machine != 0) packet.add_uint32(kMachineId, machine);
  write_packet();
}

void Writer::add_system(std::string_view sysname, std::string_view release,
                        std::string_view version, std::string_view machine) {
  std::string info, names;
  pbf_writer utsname(names);
  utsname.add_string(1, text_of(sysname));
  utsname.add_string(2, text_of(version));
  utsname.add_string(3, text_of(release));
  utsname.add_string(4, text_of(machine));
  pbf_writer(info).add_message(1, names);
  pbf_writer(packet_).add_message(kSystemInfo, info);
  write_packet();
}

Result<void> Writer::finish() {
  for (auto& [key, events] : bundles_) flush_bundle(key, events);
  return output_.commit();
}

}  // namespace trapline::perfetto
