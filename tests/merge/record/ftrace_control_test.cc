// Control of ftrace through libtracefs, on a folder made like tracefs and on the kernel's own.
#include "merge/record/ftrace_control.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/text_file.h"
#include "merge/record/instance.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace {

// libtracefs calls the program's write() and read(), which fail as often as a test says.
int interrupted = 0, refused = 0, cause = EIO;
std::size_t longest = SIZE_MAX;

ssize_t failed() {
  errno = interrupted > 0 ? EINTR : cause;
  --(interrupted > 0 ? interrupted : refused);
  return -1;
}

}  // namespace

extern "C" ssize_t write(int fd, const void* bytes, std::size_t size) {
  if (interrupted > 0 || refused > 0) return failed();
  return syscall(SYS_write, fd, bytes, std::min(size, longest));
}
extern "C" ssize_t read(int fd, void* bytes, std::size_t size) {
  if (interrupted > 0 || refused > 0) return failed();
  return syscall(SYS_read, fd, bytes, size);
}

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FtraceControlTest : public ::testing::Test {
 protected:
  FtraceControlTest() {
    fs::create_directories(root_ + "/instances/theirs");
    file("trace_clock", "local [mono] boot\n");
    file("tracing_on", "1\n");
    file("set_event", "");
    file("instances/theirs/buffer_size_kb", "1408\n");
    file("events/kvm/enable", "0\n");
    file("events/kvm/kvm_exit/filter", "none\n");
    file("events/kvm/kvm_exit/enable", "0\n");
    file("events/kvm/only_the_top_levels/format", "");
  }
  ~FtraceControlTest() override { interrupted = refused = 0, cause = EIO, longest = SIZE_MAX; }

  void file(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name) << text;
  }
  std::string text(const std::string& name) { return read_text(root_ + "/" + name).value(); }
  FtraceControl top() { return FtraceControl::open(root_).value(); }

  test::TemporaryFolder temporary_;
  std::string root_ = temporary_.path();
};

TEST_F(FtraceControlTest, FilesAreReadAndWrittenWhole) {
  const FtraceControl control = top();
  EXPECT_EQ(control.get("trace_clock"), "local [mono] boot\n");
  EXPECT_EQ(control.clock(), "mono");
  EXPECT_EQ(control.get("set_event"), "");  // an empty file is no error
  EXPECT_TRUE(control.switch_tracing(false));
  EXPECT_EQ(text("tracing_on")[0], '0');
  EXPECT_TRUE(control.set("events/kvm/kvm_exit/filter", "a == 1"));
  EXPECT_EQ(text("events/kvm/kvm_exit/filter"), "a == 1");
}

TEST_F(FtraceControlTest, ErrorNamesTheFileTheTextAndTheCause) {
  EXPECT_EQ(top().set("nothing", "1").error().message, root_ + "/nothing: " + strerror(ENOENT));
  EXPECT_EQ(top().get("nothing").error().message, root_ + "/nothing: " + strerror(ENOENT));
  refused = 1;
  EXPECT_EQ(top().set("set_event", "x").error().message,
            root_ + "/set_event: 'x' is refused: " + strerror(EIO));
  refused = 1;
  EXPECT_EQ(top().get("trace_clock").error().message, root_ + "/trace_clock: " + strerror(EIO));
}

TEST_F(FtraceControlTest, InterruptedCallsAreMadeAgain) {
  interrupted = 3;
  EXPECT_TRUE(top().set("set_event", "kvm:kvm_exit"));
  EXPECT_EQ(text("set_event"), "kvm:kvm_exit");
  interrupted = 2;
  EXPECT_TRUE(top().switch_tracing(false));
  interrupted = 2;
  EXPECT_EQ(top().get("trace_clock"), "local [mono] boot\n");
  interrupted = 2;
  EXPECT_EQ(top().clock(), "mono");
}

TEST_F(FtraceControlTest, TextThatIsWrittenInPartIsAnError) {
  longest = 2;
  EXPECT_THAT(top().set("set_event", "kvm").error().message, HasSubstr("refused"));
}

TEST_F(FtraceControlTest, FilterThatIsRefusedSaysWhatTheErrorLogSays) {
  file("error_log",
       "[ 1.0] event filter parse error: error: Older\n  Command: a\n           ^\n"
       "[ 2.0] event filter parse error: error: Field not found\n  Command: b\n");
  refused = 1, cause = EINVAL;
  EXPECT_THAT(top().set("events/kvm/kvm_exit/filter", "b").error().message,
              HasSubstr("is refused: Invalid argument: error: Field not found"));
  refused = 1, cause = EIO;  // nothing that is logged
  EXPECT_THAT(top().set("events/kvm/kvm_exit/filter", "b").error().message,
              EndsWith("is refused: Input/output error"));
}

TEST_F(FtraceControlTest, InstanceOfSomebodyElseIsNotTakenForANewOne) {
  EXPECT_EQ(FtraceControl::make(root_, "theirs").error(), EEXIST);
  EXPECT_TRUE(fs::exists(root_ + "/instances/theirs"));
  const auto made = FtraceControl::make(root_, "ours");
  ASSERT_TRUE(made);
  EXPECT_TRUE(fs::exists(root_ + "/instances/ours"));
  EXPECT_EQ(made->remove(), 0);
  EXPECT_EQ(made->remove(), ENOENT);
}

TEST_F(FtraceControlTest, NameThatIsTooLongIsRefused) {
  const std::string name(5000, 'x');  // tracefs_instance_alloc() would write it over the stack
  EXPECT_EQ(FtraceControl::open(root_, name).error(), ENAMETOOLONG);
  EXPECT_EQ(FtraceControl::make(root_, name).error(), ENAMETOOLONG);
}

TEST_F(FtraceControlTest, ListsAreThoseOfTheGivenRoot) {
  EXPECT_THAT(event_systems(root_), ElementsAre("kvm"));
  EXPECT_THAT(events_of(root_, "kvm"), ElementsAre("kvm_exit"));
  EXPECT_THAT(events_of(root_, "kvm", "kvm_exit"), ElementsAre("kvm_exit"));
  EXPECT_THAT(events_of(root_, "kvm", "*_exit"), ElementsAre("kvm_exit"));
  EXPECT_THAT(events_of(root_, "kvm", "kvm_entry"), IsEmpty());
  EXPECT_THAT(events_of(root_, "kvm", "../kvm/kvm_exit"), IsEmpty());
  EXPECT_THAT(events_of(root_, "kvm", "only_the_top_levels"), IsEmpty());
  EXPECT_THAT(events_of(root_, "nothing"), IsEmpty());
  EXPECT_THAT(instances_of(root_), ElementsAre("theirs"));
  EXPECT_THAT(instances_of(root_ + "/nothing"), IsEmpty());
}

// The kernel's own.
TEST(FtraceControlOnTracefs, KernelTakesWhatIsSetAndSaysWhyItDoesNot) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  const auto root = find_tracefs();
  TRAPLINE_REQUIRE(root.has_value(), "needs tracefs");
  const std::string name = fmt::format("control-test-{}", ::getpid());
  const auto made = FtraceControl::make(*root, name);
  ASSERT_TRUE(made) << std::strerror(made.error());
  EXPECT_TRUE(made->switch_tracing(false));
  EXPECT_TRUE(made->set("trace_clock", "mono"));
  EXPECT_EQ(made->clock(), "mono");
  EXPECT_THAT(made->set("trace_clock", "sundial").error().message, HasSubstr(strerror(EINVAL)));
  EXPECT_TRUE(made->set_buffer_kb(512));
  const int kb = std::stoi(made->get("per_cpu/cpu0/buffer_size_kb").value());
  EXPECT_GE(kb, 512);  // the kernel rounds up to whole pages
  EXPECT_LE(kb, 640);
  EXPECT_TRUE(made->set("options/event-fork", "1"));
  EXPECT_THAT(made->get("options/event-fork").value(), HasSubstr("1"));
  EXPECT_TRUE(made->set("events/sched/sched_switch/enable", "1"));
  EXPECT_EQ(made->get("set_event"), "sched:sched_switch\n");
  EXPECT_TRUE(made->set("events/sched/sched_switch/filter", "prev_pid == 1"));
  EXPECT_THAT(made->set("events/sched/sched_switch/filter", "no_such_field == 1").error().message,
              HasSubstr("error: Field not found"));
  EXPECT_EQ(FtraceControl::make(*root, name).error(), EEXIST);
  {
    const UniqueFd held(::open(made->path("trace_marker").c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(made->remove(), EBUSY);
  }
  EXPECT_EQ(made->remove(), 0);  // again, after it was refused
  EXPECT_FALSE(FtraceControl::open(*root, name));
}

}  // namespace
}  // namespace trapline::record
