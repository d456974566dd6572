// A worker may do what it likes: in time its caller gets an answer, or an Error with the file.
#include "backend_ftrace/base/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

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
  EXPECT_EQ(bits_, 3u);
  const std::string status = contents_of(proc_ + "status");
  EXPECT_THAT(status, HasSubstr("\nSeccomp:\t2\n"));
  EXPECT_THAT(status, HasSubstr("\nNoNewPrivs:\t1\n"));
  rlimit limit{};
  const auto of = [&](__rlimit_resource what) {
    EXPECT_EQ(::prlimit(worker_->pid(), what, nullptr, &limit), 0);
    return limit.rlim_cur;
  };
  EXPECT_EQ(of(RLIMIT_AS), 192u << 20);
  EXPECT_EQ(of(RLIMIT_CPU), 4u);
  EXPECT_EQ(of(RLIMIT_CORE), 0u);
  std::vector<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator(proc_ + "fd"))
    open.push_back(entry.path().filename().string() + " " +
                   std::filesystem::read_symlink(entry.path()).string().substr(0, 7));
  EXPECT_THAT(open, ::testing::UnorderedElementsAre("0 socket:", "1 /dev/nu", "2 /dev/nu"));
  // Of its caller's environment it has where its libraries are, no more.
  EXPECT_THAT(contents_of(proc_ + "environ"), ::testing::Not(HasSubstr("TRAPLINE_WORKER")));
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
