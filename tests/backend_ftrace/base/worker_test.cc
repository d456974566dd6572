// A worker may do what it likes: in time its caller gets an answer, or an Error with the file.
#include "backend_ftrace/base/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <thread>

#include "merge/worker/confine.h"

namespace trapline {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kConfined = false;
#else
constexpr bool kConfined = true;
#endif

// As generous as a busy machine needs; and what a worker that does not end is held to.
constexpr WorkerLimits kLimits{64u << 20, milliseconds(3000), std::chrono::seconds(30)};
constexpr WorkerLimits kShort{64u << 20, milliseconds(400), std::chrono::seconds(30)};
constexpr auto kLongestStall = std::chrono::seconds(30);  // of the machine

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Puts another program in the worker's place while it lives.
class Program {
 public:
  explicit Program(const char* path) : before_(std::getenv("TRAPLINE_WORKER")) {
    ::setenv("TRAPLINE_WORKER", path, 1);
  }
  ~Program() { ::setenv("TRAPLINE_WORKER", before_.c_str(), 1); }

 private:
  std::string before_;
};

class Misbehaving : public ::testing::Test {
 protected:
  Result<Worker::Message> told(std::string_view how, const WorkerLimits& limits = kLimits) {
    auto worker = Worker::start("events", "some.file", limits);
    if (!worker) return tl::unexpected(worker.error());
    MessageWriter words;
    words.text(how);
    return worker->ask(MessageKind::kPrint, words.bytes(), MessageKind::kTexts);
  }
  void expect_failure(std::string_view how, const std::string& says,
                      const WorkerLimits& limits = kLimits) {
    SCOPED_TRACE(how);
    const auto start = std::chrono::steady_clock::now();
    const auto answer = told(how, limits);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 12 * limits.answer + kLongestStall);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind, ErrorKind::kDamaged);
    EXPECT_THAT(answer.error().message, HasSubstr("some.file: "));
    EXPECT_THAT(answer.error().message, HasSubstr(says));
  }
  std::string answer_to(std::string_view how) {
    const auto answer = told(how);
    if (!answer) return answer.error().message;
    return std::string(MessageReader(answer->payload).text().value_or("nothing"));
  }

  Program program_{TRAPLINE_BINARY_DIR "/tests/worker_misbehaving"};
};

TEST_F(Misbehaving, AnAnswerIsAnAnswer) { EXPECT_EQ(answer_to("answer"), "text"); }

TEST_F(Misbehaving, EveryEndOfItIsAnErrorThatNamesTheFile) {
  expect_failure("crash", "crashed (SIGABRT)");
  expect_failure("end", "ended (status 5)");
  expect_failure("half", "ended (status 0)");
  expect_failure("close", "has ended");
  expect_failure("loop", "took longer than 0.4 s", kShort);
  expect_failure("too long", "impossible answer");
  expect_failure("other kind", "impossible answer");
  expect_failure("refuse", "is not \\x1b[2J what it should be");
}

TEST_F(Misbehaving, MemoryHasALimit) {
  if (!kConfined) GTEST_SKIP() << "no limits under a sanitizer";
  expect_failure("allocate", "needs more than 64 MiB");
}

TEST_F(Misbehaving, TimeHasALimitWithoutItsCaller) {
  if (!kConfined) GTEST_SKIP() << "no limits under a sanitizer";
  const WorkerLimits patient{kLimits.memory, milliseconds(10'000), std::chrono::seconds(1)};
  auto worker = Worker::start("events", "some.file", patient);
  ASSERT_TRUE(worker) << worker.error().message;
  MessageWriter words;
  words.text("loop");
  const auto answer = worker->ask(MessageKind::kPrint, words.bytes(), MessageKind::kTexts);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("needs too much time"));
}

TEST_F(Misbehaving, ItsFilterLetsNothingOut) {
  if (!kConfined) GTEST_SKIP() << "no filter under a sanitizer";
  EXPECT_EQ(answer_to("open"), "refused");
  expect_failure("socket", "SIGSYS");
  expect_failure("fork", "SIGSYS");
  expect_failure("memfd", "SIGSYS");
  expect_failure("execute", "SIGSYS");
}

TEST_F(Misbehaving, OneThatIsKilledIsAnError) {
  auto worker = Worker::start("events", "some.file", kLimits);
  ASSERT_TRUE(worker) << worker.error().message;
  ::kill(worker->pid(), SIGKILL);
  siginfo_t ended{};  // which is left for the worker's object to ask for
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(worker->pid()), &ended, WEXITED | WNOWAIT), 0);
  const auto answer = worker->ask(MessageKind::kPrint, {}, MessageKind::kTexts);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("was killed"));
}

// The real worker.

class RealWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    auto worker = Worker::start("symbols", "some.file", WorkerLimits::for_file(0));
    ASSERT_TRUE(worker) << worker.error().message;
    worker_.emplace(std::move(*worker));
    const auto status = worker_->ask(MessageKind::kStatus, {}, MessageKind::kStatus);
    ASSERT_TRUE(status) << status.error().message;
    bits_ = MessageReader(status->payload).number<std::uint32_t>().value_or(0);
    proc_ = "/proc/" + std::to_string(worker_->pid()) + "/";
  }
  std::optional<Worker> worker_;
  std::uint32_t bits_ = 0;
  std::string proc_;
};

TEST_F(RealWorker, IsFilteredLimitedAndHasNoDescriptorButItsOwn) {
  if (!kConfined) GTEST_SKIP() << "no limits under a sanitizer";
  EXPECT_EQ(bits_, ::geteuid() == 0 ? 7u : 3u);
  const std::string status = contents_of(proc_ + "status");
  EXPECT_THAT(status, HasSubstr("\nSeccomp:\t2\n"));
  EXPECT_THAT(status, HasSubstr("\nNoNewPrivs:\t1\n"));
  const std::string limits = contents_of(proc_ + "limits");
  for (const char* line : {"\nMax address space         201326592            201326592 ",
                           "\nMax cpu time              4  ", "\nMax core file size        0  ",
                           "\nMax processes             0  "})
    EXPECT_THAT(limits, HasSubstr(line));
  std::vector<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator(proc_ + "fd"))
    open.push_back(entry.path().filename().string() + " " +
                   std::filesystem::read_symlink(entry.path()).string().substr(0, 7));
  EXPECT_THAT(open, ::testing::UnorderedElementsAre("0 socket:", "1 /dev/nu", "2 /dev/nu"));
  // Of its caller's environment it has where its libraries are, no more.
  EXPECT_THAT(contents_of(proc_ + "environ"), ::testing::Not(HasSubstr("TRAPLINE_WORKER")));
}

TEST_F(RealWorker, OfRootHasAUidOfItsOwnAndNoCapability) {
  if (!kConfined) GTEST_SKIP() << "no limits under a sanitizer";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  auto other = Worker::start("symbols", "some.file", WorkerLimits::for_file(0));
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_TRUE(other->ask(MessageKind::kStatus, {}, MessageKind::kStatus));
  std::vector<std::string> uids;
  for (const pid_t pid : {worker_->pid(), other->pid()}) {
    const std::string status = contents_of("/proc/" + std::to_string(pid) + "/status");
    const auto line = [&](const std::string& name) {
      const auto at = status.find("\n" + name + ":") + name.size() + 3;
      return status.substr(at, status.find('\n', at) - at);
    };
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
      EXPECT_EQ(line(set), "0000000000000000") << set;
    EXPECT_EQ(line("Groups"), " ");
    uids.push_back(line("Uid"));
    EXPECT_EQ(uids.back(), line("Gid"));
    EXPECT_THAT(uids.back(), ::testing::Not(::testing::StartsWith("0\t")));
  }
  EXPECT_NE(uids[0], uids[1]);
}

// As in a container that allows no filter, or on a kernel without them.
Result<Worker::Message> ask_without_seccomp(MessageKind request, MessageKind answer) {
  Result<Worker::Message> got;
  std::thread([&] {  // a filter is a thread's, and of what it starts
    const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
    ASSERT_EQ(::seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(seccomp), 0), 0);
    const scmp_arg_cmp filters{0, SCMP_CMP_EQ, PR_SET_SECCOMP, 0};
    ASSERT_EQ(
        ::seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, &filters), 0);
    ASSERT_EQ(::seccomp_load(filter), 0);
    ::seccomp_release(filter);
    auto worker = Worker::start("symbols", "some.file", WorkerLimits::for_file(0));
    got = worker ? worker->ask(request, {}, answer)
                 : Result<Worker::Message>(tl::unexpected(worker.error()));
  })
      .join();
  return got;
}

TEST(Worker, OfRootRefusesWithoutAFilterUnlessItIsToldTo) {
  if (!kConfined) GTEST_SKIP() << "no filter under a sanitizer";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto refused = ask_without_seccomp(MessageKind::kDemangle, MessageKind::kTexts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kRuntime);
  EXPECT_THAT(refused.error().message, HasSubstr("some.file: is not parsed as root"));
  EXPECT_TRUE(ask_without_seccomp(MessageKind::kStatus, MessageKind::kStatus));
  ::setenv("TRAPLINE_WORKER_UNCONFINED", "1", 1);
  const auto allowed = ask_without_seccomp(MessageKind::kDemangle, MessageKind::kTexts);
  ::unsetenv("TRAPLINE_WORKER_UNCONFINED");
  EXPECT_TRUE(allowed) << allowed.error().message;
}

// A filter's answer to a system call, by the BPF that libseccomp makes.
std::uint32_t answer_of(std::span<const sock_filter> code, std::uint32_t architecture, int call,
                        std::uint64_t third) {
  const seccomp_data data{call, architecture, 0, {0, 0, third, 0, 0, 0}};
  std::uint32_t value = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const sock_filter& one = code[at];
    switch (one.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&value, reinterpret_cast<const char*>(&data) + one.k, sizeof value);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        value &= one.k;
        break;
      case BPF_JMP | BPF_JA:
        at += one.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += value == one.k ? one.jt : one.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += value >= one.k ? one.jt : one.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += value > one.k ? one.jt : one.jf;
        break;
      case BPF_RET | BPF_K:
        return one.k;
      default:
        ADD_FAILURE() << "code " << one.code;
        return 0;
    }
  }
  return 0;
}

std::vector<sock_filter> filter_for(std::uint32_t architecture) {
  const scmp_filter_ctx filter = worker::make_filter(architecture);
  EXPECT_NE(filter, nullptr);
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(::seccomp_export_bpf(filter, ::fileno(file)), 0);
  ::seccomp_release(filter);
  std::fseek(file, 0, SEEK_END);
  std::vector<sock_filter> code(static_cast<std::size_t>(std::ftell(file)) / sizeof(sock_filter));
  std::rewind(file);
  EXPECT_EQ(std::fread(code.data(), sizeof(sock_filter), code.size(), file), code.size());
  std::fclose(file);
  return code;
}

// By name, what the filter allows, and what it refuses with an error.
std::pair<std::set<std::string>, std::set<std::string>> answers_on(std::uint32_t architecture) {
  const auto code = filter_for(architecture);
  std::pair<std::set<std::string>, std::set<std::string>> names;
  for (int call = 0; call < 1024; ++call) {
    char* name = ::seccomp_syscall_resolve_num_arch(architecture, call);
    if (name == nullptr) continue;
    const std::uint32_t answer = answer_of(code, architecture, call, PROT_READ);
    if (answer == SECCOMP_RET_ALLOW) names.first.insert(name);
    if (answer == (SECCOMP_RET_ERRNO | EACCES)) names.second.insert(name);
    if (answer == SECCOMP_RET_ALLOW &&
        (std::string(name) == "mmap" || std::string(name) == "mprotect")) {
      EXPECT_EQ(answer_of(code, architecture, call, PROT_READ | PROT_EXEC),
                SECCOMP_RET_KILL_PROCESS);
    }
    std::free(name);
  }
  EXPECT_EQ(answer_of(code, architecture + 1, 0, 0), SECCOMP_RET_KILL_PROCESS);
  return names;
}

TEST(WorkerFilter, AllowsTheSameOnEveryArchitecture) {
  const auto x86 = answers_on(SCMP_ARCH_X86_64);
  EXPECT_EQ(x86.first.size(), 33u);  // and tgkill, of itself
  EXPECT_EQ(x86.second.size(), 21u);
  for (const std::uint32_t architecture : {SCMP_ARCH_AARCH64, SCMP_ARCH_RISCV64}) {
    const auto there = answers_on(architecture);
    EXPECT_EQ(there.first, x86.first);
    for (const std::string& name : x86.second) {
      const int call = ::seccomp_syscall_resolve_name_arch(architecture, name.c_str());
      EXPECT_EQ(there.second.count(name), call >= 0 ? 1u : 0u) << name;
    }
  }
  // x32's numbers, by which the same calls could be made on x86-64.
  const auto code = filter_for(SCMP_ARCH_X86_64);
  EXPECT_EQ(answer_of(code, SCMP_ARCH_X86_64, 0x40000000, 0), SECCOMP_RET_KILL_PROCESS);
}

TEST_F(RealWorker, EndsWithItsCaller) {
  const pid_t pid = worker_->pid();
  worker_.reset();
  EXPECT_EQ(::kill(pid, 0), -1);  // reaped
}

TEST(Worker, OneThatCannotBeStartedSaysWhichProgram) {
  const Program none("/nonexistent/worker");
  const auto worker = Worker::start("events", "some.file", kLimits);
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().kind, ErrorKind::kRuntime);
  EXPECT_THAT(worker.error().message, HasSubstr("/nonexistent/worker"));
}

TEST(Worker, StartsFromAProgramWithThreadsAndBlockedSignals) {
  std::vector<std::jthread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([] {
      sigset_t all;
      sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      for (int k = 0; k < 5; ++k) {
        auto worker = Worker::start("symbols", "some.file", WorkerLimits::for_file(0));
        ASSERT_TRUE(worker) << worker.error().message;
        const auto status = worker->ask(MessageKind::kStatus, {}, MessageKind::kStatus);
        EXPECT_TRUE(status);
      }
    });
  }
}

}  // namespace
}  // namespace trapline
