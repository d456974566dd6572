#include "merge/source/kernel_events/event_texts.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/worker.h"
#include "merge/source/kernel_events/format_text.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {
namespace {

constexpr std::uint64_t kMostAhead = 64;
constexpr std::size_t kMostFollowing = 256;  // at most kMostAhead of these are printed ahead
constexpr unsigned kKnownBits = 12;
constexpr std::size_t kLongestText = 16 * 1024;     // of one event, as the worker sends it
constexpr std::uint64_t kWorkerEvents = 1'000'000;  // then a fresh one: its time is limited
constexpr unsigned kMostFailures = 4;               // types of events

WorkerLimits limits_of(const FormatTexts& formats) {
  std::uint64_t size = 0;
  for (const EventFormat& format : formats.formats) size += format.text.size();
  WorkerLimits limits = WorkerLimits::for_file(size);
  limits.life *= 10;
  return limits;
}

}  // namespace

EventTexts::EventTexts(std::string recording, const FormatTexts& formats)
    : recording_(std::move(recording)), formats_(formats) {}
EventTexts::~EventTexts() = default;

void EventTexts::look_at_formats() {
  looked_ = true;
  for (const EventFormat& format : formats_.formats) {
    const auto id = format_id(format.text);
    if (!id) continue;
    Type& type = types_[*id] = {&format};
    for (const FormatField& field : format_fields(format.text))
      type.size = std::max(type.size, field.offset + field.size);
  }
}

std::string EventTexts::text(std::uint16_t type, std::span<const std::byte> event,
                             std::uint32_t cpu, const Following& following) {
  if (!looked_) look_at_formats();
  const auto found = types_.find(type);
  if (found == types_.end()) return {};
  found->second.asked = true;
  // libtraceevent reads fields without checking the event's size.
  if (found->second.size > event.size()) return "[cut off]";
  if (const PrintedText& known = known_of(event); known.is(event, cpu)) {
    ++hits_;
    return known.text;
  }
  if (found->second.refused || failures_ >= kMostFailures) return "[not printed]";
  auto wanted = with_following(found->second, event, following);
  auto done = print(wanted, cpu);
  if (!done && wanted.size() > 1 && worker_ && !worker_->timed_out()) {
    // One event of the batch caused the failure: from now on, events of these types are sent alone.
    for (const Wanted& one : wanted) one.type->alone = true;
    wanted.resize(1);
    done = print(wanted, cpu);
  }
  if (!done) {
    failed(wanted.front(), std::move(done).error());
    return "[not printed]";
  }
  return known_of(event).text;
}

// Returns the slot for the text of an event at this address. It may have another event's text.
EventTexts::PrintedText& EventTexts::known_of(std::span<const std::byte> event) {
  if (known_.empty()) known_.resize(std::size_t{1} << kKnownBits);
  const auto place = reinterpret_cast<std::uintptr_t>(event.data());
  return known_[place * 0x9e3779b97f4a7c15 >> (64 - kKnownBits)];
}

std::vector<EventTexts::Wanted> EventTexts::with_following(Type& type,
                                                           std::span<const std::byte> event,
                                                           const Following& following) {
  // Limits how many events are printed ahead: kOnTrust, and two more for each printed text that was
  // used. So printing ahead stops if less than half of its texts are used.
  constexpr std::uint64_t kOnTrust = 8;
  const std::uint64_t most = std::min(kOnTrust + 2 * hits_ - ahead_, kMostAhead);
  std::vector<Wanted> wanted = {{&type, event}};
  after_.clear();
  if (!type.alone) following(kMostFollowing, after_);
  for (const RecordedEvent& next : after_) {
    if (next.size < kCommonFields) continue;
    const auto found = types_.find(load<std::uint16_t>(next.data, formats_.order));
    if (found == types_.end()) continue;
    Type& its = found->second;
    if (!its.asked || its.alone || its.size > next.size) continue;
    if (wanted.size() > most) break;
    wanted.push_back({&its, {next.data, next.size}});
  }
  ahead_ += wanted.size() - 1;
  return wanted;
}

Result<void> EventTexts::start() {
  auto worker = Worker::start("events", recording_, limits_of(formats_));
  if (!worker) return tl::unexpected(std::move(worker).error());
  worker_ = std::make_unique<Worker>(std::move(*worker));
  printed_ = 0;
  for (auto& [id, type] : types_) type.sent = false;
  return {};
}

Result<void> EventTexts::send_formats(std::span<const Wanted> wanted) {
  MessageWriter formats;
  formats.number(std::uint32_t{formats_.order == std::endian::big});
  formats.number(formats_.long_size);
  const std::size_t empty = formats.size();
  for (const Wanted& one : wanted) {
    if (std::exchange(one.type->sent, true)) continue;
    formats.text(one.type->format->system);
    formats.text(one.type->format->text);
  }
  if (formats.size() == empty) return {};
  return worker_->send(MessageKind::kFormats, formats.bytes());
}

Result<void> EventTexts::print(std::span<const Wanted> wanted, std::uint32_t cpu) {
  if (!worker_ || worker_->pid() < 0 || printed_ >= kWorkerEvents) {
    if (auto started = start(); !started) return started;
  }
  if (auto sent = send_formats(wanted); !sent) return sent;
  MessageWriter events;
  for (const Wanted& one : wanted) {
    events.number(cpu);
    events.text({reinterpret_cast<const char*>(one.event.data()), one.event.size()});
  }
  const auto answer = worker_->ask(MessageKind::kPrint, events.bytes(), MessageKind::kTexts);
  if (!answer) return tl::unexpected(answer.error());
  MessageReader texts(answer->payload);
  // The first text is the requested one: no text printed ahead may replace it if both have the
  // same slot.
  for (const Wanted& one : wanted) {
    const auto text = texts.text();
    if (!text || text->size() > kLongestText) return worker_->impossible("its texts");
    PrintedText& known = known_of(one.event);
    if (&one != wanted.data() && &known == &known_of(wanted.front().event)) continue;
    known.event.assign(one.event.begin(), one.event.end());
    known.cpu = cpu;
    known.text = printable(trimmed(*text));
  }
  printed_ += wanted.size();
  return {};
}

void EventTexts::failed(const Wanted& wanted, Error error) {
  wanted.type->refused = true;
  // If the worker cannot be started or times out, it is not tried again.
  failures_ = !worker_ || worker_->timed_out() ? kMostFailures : failures_ + 1;
  if (!status_) return;
  const auto event = format_line(wanted.type->format->text, "name:");
  error.message += fmt::format(" (it was printing an event {}:{})",
                               printable(wanted.type->format->system), printable(event));
  status_ = tl::unexpected(std::move(error));
}

}  // namespace trapline::kernel_events
