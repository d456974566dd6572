#include "tests/fuzz/canned_worker.h"

#include <deque>
#include <map>

#include "backend_ftrace/base/worker.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/support/format_text.h"

namespace trapline {
namespace fuzz {
std::string_view false_answers;
}
namespace {

std::map<pid_t, std::deque<Worker::Message>> workers;
pid_t last_worker = 0;

Worker::Message message(MessageKind kind, const MessageWriter& payload) {
  return {kind, {payload.bytes().begin(), payload.bytes().end()}};
}

Worker::Message described(std::string_view format) {
  MessageWriter to;
  const auto id = test::format_id(format);
  if (!id) return message(MessageKind::kFormat, to);
  const auto fields = test::format_fields(format);
  to.number(std::uint32_t{*id});
  to.number(std::uint32_t{1});  // a print format that is read
  to.number(static_cast<std::uint32_t>(fields.size()));
  for (const test::FormatField& field : fields) {
    to.text(field.name);
    to.number(field.offset);
    to.number(field.size);
    to.number(std::uint32_t{field.array});
  }
  for (const test::SymbolTableOfField& table : test::format_symbols(format)) {
    to.text(table.field);
    to.number(static_cast<std::uint32_t>(table.names.size()));
    for (const auto& [value, name] : table.names) {
      to.number(value);
      to.text(name);
    }
  }
  return message(MessageKind::kFormat, to);
}

}  // namespace

WorkerLimits WorkerLimits::for_file(std::uint64_t) { return {}; }
void Worker::forbid(std::string) {}
const std::string& Worker::forbidden() {
  static const std::string fuzzing = "fuzzing";
  return fuzzing;
}
Result<Worker> Worker::start(std::string_view task, std::string subject,
                             const WorkerLimits& limits) {
  if (task != "events") return fail("{}: cannot be read here: {}", subject, forbidden());
  workers[++last_worker] = {};
  return Worker(last_worker, UniqueFd(), std::move(subject), limits);
}
Worker::Worker(Worker&& other) noexcept : pid_(-1) { *this = std::move(other); }
Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(pid_, other.pid_);
  subject_.swap(other.subject_);
  return *this;
}
Worker::~Worker() { end(); }
void Worker::end() {
  workers.erase(pid_);
  pid_ = -1;
}
Result<void> Worker::send(MessageKind kind, std::span<const std::byte> payload, int) {
  const auto served = workers.find(pid_);
  if (served == workers.end()) return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  MessageReader request(payload);
  if (kind == MessageKind::kFormats) {
    (void)request.number<std::uint32_t>();
    (void)request.number<std::uint32_t>();
    while (!request.at_end()) {
      const auto system = request.text(), format = request.text();
      fuzz::hold(system && format, "a format is none");
      served->second.push_back(described(*format));
    }
    return {};
  }
  if (kind != MessageKind::kPrint) return {};  // printk_formats, kallsyms
  MessageWriter texts;
  while (!request.at_end()) {
    const auto cpu = request.number<std::uint32_t>();
    const auto event = request.text();
    fuzz::hold(cpu && event, "an event is none");
    texts.text(event->substr(0, 8));
  }
  served->second.push_back(message(MessageKind::kTexts, texts));
  return {};
}
Result<Worker::Message> Worker::receive() {
  const auto served = workers.find(pid_);
  if (served == workers.end()) return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  std::deque<Message>& answers = served->second;
  constexpr std::size_t kHead = 3;
  if (std::string_view& instead = fuzz::false_answers; instead.size() >= kHead) {
    answers.clear();
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(instead[i]); };
    const std::size_t size = std::min<std::size_t>(byte(1) | byte(2) << 8, instead.size() - kHead);
    const auto bytes = std::as_bytes(std::span(instead.substr(kHead, size)));
    answers.push_back({static_cast<MessageKind>(byte(0)), {bytes.begin(), bytes.end()}});
    instead.remove_prefix(kHead + size);
  }
  if (answers.empty()) {
    end();
    return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  }
  Message next = std::move(answers.front());
  answers.pop_front();
  return next;
}
tl::unexpected<Error> Worker::impossible(std::string_view answer) {
  end();
  return fail(ErrorKind::kDamaged, "{}: an impossible answer ({})", subject_, answer);
}

}  // namespace trapline
