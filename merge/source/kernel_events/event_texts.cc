#include "merge/source/kernel_events/event_texts.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/worker.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::kernel_events {
namespace {

constexpr std::uint64_t kMostAhead = 64;
constexpr std::size_t kMostFollowing = 256;  // events considered for printing ahead
constexpr unsigned kKnownBits = 12;
constexpr std::size_t kLongestText = 16 * 1024;     // bytes of one event's text from the worker
constexpr std::uint64_t kWorkerEvents = 1'000'000;  // for one worker, since its time is limited
constexpr unsigned kMostFailures = 4;  // event types that may fail before printing is given up

}  // namespace

std::string_view format_line(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto line = take_line(text);
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  }
  return {};
}

std::optional<std::uint16_t> format_id(std::string_view text) {
  const auto id = parse_number(format_line(text, "ID:"));
  return id && *id <= UINT16_MAX ? std::optional(static_cast<std::uint16_t>(*id)) : std::nullopt;
}

std::string EventFormat::name() const {
  return fmt::format("{}:{}", printable(system), printable(format_line(text, "name:")));
}

std::optional<EventDescription> EventDescription::parse(std::uint16_t type,
                                                        std::span<const std::byte> answer) {
  constexpr std::uint32_t kMostFields = 512, kMostNames = 4096, kLongestEvent = 1u << 16;
  constexpr std::size_t kMostTables = 16;
  EventDescription described;
  if (answer.empty()) return described;
  MessageReader reader(answer);
  const auto id = reader.number<std::uint32_t>(), print_read = reader.number<std::uint32_t>();
  const auto fields = reader.number<std::uint32_t>();
  if (!fields || *id != type || *fields > kMostFields) return std::nullopt;
  described.print_read = *print_read != 0;
  for (std::uint32_t i = 0; i < *fields; ++i) {
    const auto name = reader.text();
    const auto offset = reader.number<std::uint32_t>(), size = reader.number<std::uint32_t>();
    const auto array = reader.number<std::uint32_t>();
    if (!array || name->empty() || std::uint64_t{*offset} + *size > kLongestEvent)
      return std::nullopt;
    described.size = std::max(described.size, *offset + *size);
    described.fields.push_back({printable(*name), *offset, *size, *array != 0});
  }
  while (!reader.at_end()) {
    const auto field = reader.text();
    const auto count = reader.number<std::uint32_t>();
    if (!count || *count > kMostNames || described.symbols.size() == kMostTables)
      return std::nullopt;
    SymbolTableOfField& table = described.symbols.emplace_back();
    table.field = printable(*field);
    for (std::uint32_t i = 0; i < *count; ++i) {
      const auto value = reader.number<std::uint32_t>();
      const auto name = reader.text();
      if (!name) return std::nullopt;
      table.names.emplace(*value, printable(*name));
    }
  }
  return described;
}

bool prints_symbols(std::string_view formats) {
  for (std::size_t at = formats.find('%'); at != std::string_view::npos;
       at = formats.find('%', at)) {
    at = std::min(formats.find_first_not_of("-+ #0123456789.*hlz", at + 1), formats.size());
    const std::string_view rest = formats.substr(at);
    if (rest.size() >= 2 && rest[0] == 'p' &&
        std::string_view("sSfFB").find(rest[1]) != std::string_view::npos)
      return true;
    if (rest.starts_with('%')) ++at;  // %%
  }
  return false;
}

EventTexts::EventTexts(std::string recording, const FormatTexts& formats)
    : recording_(std::move(recording)), formats_(formats) {
  // If two formats have the same type, the last one counts.
  for (const EventFormat& format : formats_.formats)
    if (const auto id = format_id(format.text)) types_[*id].format = &format;
}
EventTexts::~EventTexts() = default;

Result<std::vector<EventDescription>> EventTexts::describe(std::span<const std::uint16_t> types) {
  // Recordings of one kernel, such as those that diff compares, have the same formats.
  constexpr std::size_t kMostKnown = 8;
  static std::map<std::string, std::vector<EventDescription>> known;
  std::vector<Type*> wanted;
  for (const std::uint16_t type : types) wanted.push_back(&types_[type]);
  const MessageWriter request = request_for(wanted);
  std::string key(reinterpret_cast<const char*>(request.bytes().data()), request.size());
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  auto described = ask_formats(wanted);
  if (!described) return described;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!(*described)[i].fields.empty() || !status_) continue;
    status_ = fail(ErrorKind::kDamaged, "{}: the format of {} cannot be read", recording_,
                   wanted[i]->format->name());
  }
  if (!status_) return described;
  if (known.size() == kMostKnown) known.clear();
  known.emplace(std::move(key), *described);
  return described;
}

Result<std::vector<EventDescription>> EventTexts::ask_formats(std::span<Type* const> types) {
  std::vector<EventDescription> described;
  while (described.size() < types.size()) {
    if (failures_ >= kMostFailures) {
      described.emplace_back();
      continue;
    }
    const std::size_t first = described.size();
    const bool fresh = !runs();
    auto done = start();
    if (done) done = send_formats(types.subspan(first), described);
    if (done || described.size() == types.size()) continue;
    if (done.error().kind == ErrorKind::kRuntime) return tl::unexpected(std::move(done).error());
    // If a worker ended over a format that was not its first, an earlier format may have harmed the
    // worker, so this format is sent to a new one.
    const bool ended = worker_->pid() < 0 && !worker_->timed_out();
    if (ended && (described.size() != first || !fresh)) continue;
    failed(*types[described.size()], std::move(done).error(), "reading the format of");
    described.emplace_back();
  }
  for (std::size_t i = 0; i < types.size(); ++i) types[i]->size = described[i].size;
  return described;
}

std::string EventTexts::text(std::uint16_t type, std::span<const std::byte> raw, std::uint32_t cpu,
                             const Following& following, const Kallsyms& kallsyms) {
  const std::string_view event(reinterpret_cast<const char*>(raw.data()), raw.size());
  const auto found = types_.find(type);
  if (found == types_.end()) return {};
  if (!std::exchange(found->second.requested, true)) {
    // Events of trace_printk(), bprint and bputs, only point to their text.
    wants_printk_ |= found->second.format->name().starts_with("ftrace:bp");
    wants_kallsyms_ |= prints_symbols(found->second.format->text);
  }
  if (Type* const unread = &found->second; !unread->size) {
    if (auto described = ask_formats({&unread, 1}); !described)
      failed(*unread, std::move(described).error(), "reading the format of");
  }
  // libtraceevent reads fields without checking the event's size.
  if (found->second.size.value_or(0) > event.size()) return "[cut off]";
  Result<void> done;
  PrintedText& known = known_of(event);
  if (known.is(event, cpu)) {
    if (std::exchange(known.ahead, false)) ++hits_;
    done = receive_up_to(&known);
  } else if (found->second.refused || failures_ >= kMostFailures) {
    return "[not printed]";
  } else {
    done = print(with_following(found->second, event, cpu, following), cpu, kallsyms);
  }
  // One event of the batch caused the failure: from now on, events of these types are sent alone.
  if (!done && forget_due() > 1 && worker_ && !worker_->timed_out())
    done = print({{&found->second, event}}, cpu, kallsyms);
  if (!done) {
    forget_due();
    failed(found->second, std::move(done).error(), "printing an event");
    return "[not printed]";
  }
  return known.text;
}

// Returns the slot for the text of an event with these bytes. The slot may still hold the text of
// another event.
EventTexts::PrintedText& EventTexts::known_of(std::string_view event) {
  if (known_.empty()) known_.resize(std::size_t{1} << kKnownBits);
  return known_[std::hash<std::string_view>{}(event) >> (64 - kKnownBits)];
}

std::vector<EventTexts::Wanted> EventTexts::with_following(Type& type, std::string_view event,
                                                           std::uint32_t cpu,
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
    if (!its.requested || its.alone || its.size.value_or(0) > next.size) continue;
    if (wanted.size() > most) break;
    const std::string_view bytes(reinterpret_cast<const char*>(next.data), next.size);
    if (!known_of(bytes).is(bytes, cpu)) wanted.push_back({&its, bytes});
  }
  return wanted;
}

Result<void> EventTexts::start() {
  if (!receive_up_to(nullptr)) forget_due();
  if (runs()) return {};
  std::uint64_t size = formats_.printk.size();
  for (const EventFormat& format : formats_.formats) size += format.text.size();
  WorkerLimits limits = WorkerLimits::for_file(size);
  limits.life *= 10;
  auto worker = Worker::start("events", recording_, limits);
  if (!worker) return tl::unexpected(std::move(worker).error());
  worker_ = std::make_unique<Worker>(std::move(*worker));
  printed_ = 0;
  has_printk_ = has_kallsyms_ = false;
  for (auto& [id, type] : types_) type.sent = false;
  return {};
}

bool EventTexts::runs() const { return worker_ && worker_->pid() >= 0 && printed_ < kWorkerEvents; }

MessageWriter EventTexts::request_for(std::span<Type* const> types) const {
  MessageWriter formats;
  formats.number(std::uint32_t{formats_.order == std::endian::big});
  formats.number(formats_.long_size);
  for (const Type* type : types) {
    formats.text(type->format->system);
    formats.text(type->format->text);
  }
  return formats;
}

// Sends the formats to the worker, and appends its description of each, up to the first failure.
Result<void> EventTexts::send_formats(std::span<Type* const> types,
                                      std::vector<EventDescription>& described) {
  if (types.empty()) return {};
  for (Type* type : types) type->sent = true;
  const MessageWriter formats = request_for(types);
  if (auto sent = worker_->send(MessageKind::kFormats, formats.bytes()); !sent) return sent;
  for (const Type* type : types) {
    auto answer = worker_->receive();
    if (!answer) return tl::unexpected(std::move(answer).error());
    const auto id = format_id(type->format->text).value_or(0);
    auto one = EventDescription::parse(id, answer->payload);
    if (answer->kind != MessageKind::kFormat || !one) return worker_->impossible("a format");
    described.push_back(*std::move(one));
  }
  return {};
}

// Sends the events to the worker and receives the first one's text.
Result<void> EventTexts::print(std::vector<Wanted> wanted, std::uint32_t cpu,
                               const Kallsyms& kallsyms) {
  if (auto started = start(); !started) return started;
  MessageWriter events;
  for (const Wanted& one : wanted) {
    PrintedText& known = known_of(one.event);
    if (known.due) continue;  // the slot waits for the text of an event before this one
    events.number(cpu);
    events.text(one.event);
    known.event = one.event;
    known.cpu = cpu;
    known.due = true;
    known.ahead = &one != wanted.data();
    due_.emplace_back(one.type, &known);
  }
  std::vector<Type*> unsent;
  for (const Wanted& one : wanted)
    if (!std::exchange(one.type->sent, true)) unsent.push_back(one.type);
  std::vector<EventDescription> known_before;
  if (auto sent = send_formats(unsent, known_before); !sent) return sent;
  // libtraceevent takes the printk strings only once, and kallsyms only once.
  const auto section = [this](MessageKind kind, std::string_view text) -> Result<void> {
    constexpr std::size_t kMost = kLargestMessage - sizeof(std::uint32_t);
    MessageWriter message;
    message.text(text.size() <= kMost ? text : std::string_view());
    return worker_->send(kind, message.bytes());
  };
  Result<void> sent;
  if (wants_printk_ && !std::exchange(has_printk_, true))
    sent = section(MessageKind::kPrintk, formats_.printk);
  if (sent && wants_kallsyms_ && !std::exchange(has_kallsyms_, true))
    sent = section(MessageKind::kKallsyms, kallsyms());
  if (sent) sent = worker_->send(MessageKind::kPrint, events.bytes());
  printed_ += due_.size();
  ahead_ += due_.size() - 1;
  return sent ? receive_up_to(&known_of(wanted.front().event)) : sent;
}

// Receives the texts that are due, in the order in which they were sent, up to that of `last`;
// nullptr: all.
Result<void> EventTexts::receive_up_to(const PrintedText* last) {
  while (last != nullptr ? last->due : !due_.empty()) {
    const auto answer = worker_->receive();
    if (!answer) return tl::unexpected(answer.error());
    MessageReader texts(answer->payload);
    do {
      const auto text = texts.text();
      if (answer->kind != MessageKind::kTexts || !text || text->size() > kLongestText ||
          due_.empty())
        return worker_->impossible("its texts");
      PrintedText& slot = *due_.front().second;
      slot.text = printable(trimmed(*text));
      slot.due = false;
      due_.pop_front();
    } while (!texts.at_end());
  }
  return {};
}

// Forgets the events whose texts are due, since the texts cannot be received any more; from now on,
// events of their types are sent alone. Returns the number of forgotten events.
std::size_t EventTexts::forget_due() {
  for (const auto& [type, slot] : due_) {
    type->alone = true;
    *slot = {};
  }
  return std::exchange(due_, {}).size();
}

void EventTexts::failed(Type& type, Error error, std::string_view doing) {
  type.refused = true;
  // If the worker cannot be started or times out on an event, no worker is tried again.
  const bool printing = type.size.has_value();
  failures_ = !worker_ || (printing && worker_->timed_out()) ? kMostFailures : failures_ + 1;
  if (!status_) return;
  error.message += fmt::format(" (it was {} {})", doing, type.format->name());
  status_ = tl::unexpected(std::move(error));
}

}  // namespace trapline::kernel_events
