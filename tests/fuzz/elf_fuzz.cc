// An ELF file, perhaps with its separate debug file, read by the worker's code in this process, and
// its answers by the code that asks; or by a worker that was taken over and answers as it likes.
#include <fcntl.h>
#include <unistd.h>

#include <deque>
#include <map>

#include "backend_ftrace/base/worker.h"
#include "plugin/format/symbol_writer.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_symbols.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/input_files.h"

// With what it keeps to itself: it opens one file in its life.
#include "merge/worker/elf_symbols.cc"

namespace trapline {
namespace {

struct Served {
  worker::ElfFile file;
  std::deque<Worker::Message> answers;
};
std::map<pid_t, Served> workers;
pid_t last_worker = 0;
Served* answering = nullptr;
std::string_view false_answers;  // in place of all: kind, size, bytes

// Half of a name stands for what libiberty says of it, which may take any time; a worker ends over
// one that holds a '!'.
void demangle(MessageReader names) {
  MessageWriter texts;
  while (!names.at_end()) {
    const auto name = names.text();
    fuzz::hold(name.has_value(), "a name is none");
    if (name->find('!') != name->npos) break;
    texts.text(name->substr(0, name->size() / 2));
  }
  worker::answer(MessageKind::kTexts, texts.bytes());
}

}  // namespace

namespace worker {
void answer(MessageKind kind, std::span<const std::byte> payload) {
  fuzz::hold(payload.size() <= kLargestMessage, "an answer is larger than the largest");
  answering->answers.push_back({kind, {payload.begin(), payload.end()}});
}
void refuse(ErrorKind kind, std::string_view reason) {
  MessageWriter why;
  why.number(static_cast<std::uint32_t>(kind));
  why.text(reason);
  answer(MessageKind::kRefused, why.bytes());
}
}  // namespace worker

// ---- Worker, without a process

WorkerLimits WorkerLimits::for_file(std::uint64_t) { return {}; }
void Worker::forbid(std::string) {}
const std::string& Worker::forbidden() {
  static const std::string none;
  return none;
}
Result<Worker> Worker::start(std::string_view, std::string subject, const WorkerLimits& limits) {
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
  const auto served = workers.find(pid_);
  if (served == workers.end()) return;
  if (served->second.file.elf != nullptr) elf_end(served->second.file.elf);
  const auto bytes = served->second.file.bytes;
  if (!bytes.empty()) ::munmap(bytes.data(), bytes.size());
  workers.erase(served);
  pid_ = -1;
}
Result<void> Worker::send(MessageKind kind, std::span<const std::byte> payload, int descriptor) {
  const auto served = workers.find(pid_);
  if (served == workers.end()) return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  if (!false_answers.empty()) return {};
  answering = &served->second;
  if (kind == MessageKind::kDemangle) {
    demangle(MessageReader(payload));
    return {};
  }
  std::swap(worker::opened, answering->file);
  worker::read_symbols({kind,
                        {payload.begin(), payload.end()},
                        UniqueFd(descriptor < 0 ? -1 : ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3))});
  std::swap(worker::opened, answering->file);
  return {};
}
Result<Worker::Message> Worker::receive() {
  const auto served = workers.find(pid_);
  if (served == workers.end()) return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  std::deque<Message>& answers = served->second.answers;
  if (false_answers.size() >= 2) {
    const auto kind = static_cast<MessageKind>(static_cast<unsigned char>(false_answers[0]));
    const std::size_t size = std::min<std::size_t>(static_cast<unsigned char>(false_answers[1]),
                                                   false_answers.size() - 2);
    const auto bytes = std::as_bytes(std::span(false_answers.substr(2, size)));
    answers.push_back({kind, {bytes.begin(), bytes.end()}});
    false_answers.remove_prefix(2 + size);
  }
  if (answers.empty()) {
    end();
    return fail(ErrorKind::kDamaged, "{}: it has ended", subject_);
  }
  Message message = std::move(answers.front());
  answers.pop_front();
  if (message.kind == MessageKind::kRefused)
    return fail(ErrorKind::kDamaged, "{}: it is refused", subject_);
  return message;
}
tl::unexpected<Error> Worker::impossible(std::string_view answer) {
  end();
  return fail(ErrorKind::kDamaged, "{}: an impossible answer ({})", subject_, answer);
}

}  // namespace trapline

namespace {

using namespace trapline;

void read_file(const std::string& path) {
  const auto file = load_symbol_file(path);
  if (!file) {
    fuzz::hold(!file.error().message.empty(), "an error says nothing");
    return;
  }
  fuzz::check_symbols(*file);
  for (const Symbol& symbol : file->symbols) {
    fuzz::hold(!symbol.name.empty() && !symbol.linkage_name.empty(), "a function has no name");
  }
  for (std::size_t i = 1; i < file->text.size(); ++i)
    fuzz::hold(file->text[i - 1].start <= file->text[i].start, "sections are not in order");
  if (!file->is_elf) return;
  const auto lines = read_source_lines(*file);
  for (std::size_t i = 1; lines && i < lines->size(); ++i)
    fuzz::hold((*lines)[i - 1].address <= (*lines)[i].address, "lines are not in order");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> names = {"prog", "prog.debug", "answers"};
  static const fuzz::MemoryFolder folder;
  const std::string_view input = fuzz::text_of(data, size);
  std::string_view answers;
  for (const fuzz::NamedPart& part : fuzz::parts_of(input, names.size()))
    if (part.name == 2) answers = part.bytes;
  folder.fill(input, names);
  fuzz::bounded(size, [&] {
    false_answers = answers;
    read_file(folder.path() + "/prog");
    fuzz::hold(workers.empty(), "a worker was left");
  });
  return 0;
}
