#include "merge/live/view.h"

#include <gmock/gmock.h>

#include <fstream>

#include "merge/report/units.h"
#include "tests/support/temporary_folder.h"

namespace trapline::live {
namespace {

using testing::HasSubstr;
using testing::Le;
using testing::Not;

// A view of a recording, whose frames are all there.
class ViewTest : public testing::Test {
 protected:
  ViewTest() { show(TRAPLINE_TEST_DATA "/box/linux-irq.dat"); }
  void show(const std::string& path) {
    view_.reset();
    frames_.clear();
    InputOptions input;
    input.paths = {path};
    EngineOptions options;
    options.by = {Dimension::kReason};
    engine_ = std::make_unique<Engine>(*open_input(input), options, [this](Frame&& frame) {
      frames_.push_back(std::move(frame));
    });
    view_ = std::make_unique<View>(*engine_);
    while (engine_->advance(Timestamp(~std::uint64_t{0}), 1u << 20) != Engine::State::kEnded) {
    }
    engine_->finish();
    for (Frame& frame : frames_) view_->add(std::move(frame));
  }
  void press(std::initializer_list<int> keys) {
    for (const int key : keys) EXPECT_TRUE(view_->key(key));
  }
  std::string screen(std::size_t width = 80, std::size_t height = 24) {
    std::string text;
    for (const std::string& line : view_->draw({.width = width}, height)) text += line + '\n';
    return text;
  }

  std::vector<Frame> frames_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<View> view_;
};

TEST_F(ViewTest, AMessageThatComesDoesNotHideTheAnswerToAKey) {
  view_->save = [] { return "saved it"; };
  press({'w'});
  view_->say("no VM exit comes");
  EXPECT_THAT(screen(), HasSubstr("saved it"));
  press({'s'});
  EXPECT_THAT(screen(), Not(HasSubstr("saved it")));
  view_->say("no VM exit comes");
  EXPECT_THAT(screen(), HasSubstr("no VM exit comes"));
}

TEST_F(ViewTest, ShowsVcpusAndTheRowsOfBy) {
  press({'<'});
  EXPECT_THAT(screen(), HasSubstr("vCPU 0"));
  EXPECT_THAT(screen(), HasSubstr("exits/s"));
  EXPECT_THAT(screen(), HasSubstr("of busy"));
  EXPECT_THAT(screen(), HasSubstr("hlt"));
}

TEST_F(ViewTest, EnterGoesFromReasonToDeviceToTheSlowestExits) {
  press({'<', '/', 'i', 'o', kEnter, kEnter});
  EXPECT_THAT(screen(), HasSubstr("all > io"));
  press({kEnter});
  EXPECT_THAT(screen(), HasSubstr("slow exits"));
  press({kBack, kBack});
  EXPECT_THAT(screen(), Not(HasSubstr("all > io")));
}

TEST_F(ViewTest, StepsBackAndGoesOnLive) {
  const std::string now = screen();
  press({kLeft, kLeft});
  EXPECT_THAT(screen(), HasSubstr("PAUSED 2 s back"));
  press({' '});
  EXPECT_EQ(screen(), now);
}

TEST_F(ViewTest, AFilterLeavesTheRowsWithItsText) {
  press({'<', '/', 'h', 'l', 't', kEnter});
  EXPECT_THAT(screen(), HasSubstr("hlt"));
  EXPECT_THAT(screen(), Not(HasSubstr("cpuid")));
}

TEST_F(ViewTest, EveryLineFitsEveryScreen) {
  for (const std::size_t width : {40u, 60u, 80u, 200u}) {
    for (const std::size_t height : {2u, 10u, 24u, 60u}) {
      const std::vector<std::string> lines = view_->draw({.width = width}, height);
      EXPECT_EQ(lines.size(), height);
      for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
        const std::size_t inverse = lines[i].starts_with("\x1b[7m") ? 8 : 0;  // of the chosen row
        EXPECT_THAT(text_width(lines[i]), Le(width + inverse))
            << "line " << i << " of " << width << " x " << height;
      }
    }
  }
}

TEST_F(ViewTest, ColumnsGoBeforeAFigureOrItsUnitIsCut) {
  press({'<'});
  EXPECT_THAT(screen(40), Not(HasSubstr("p50")));
  EXPECT_THAT(screen(200), HasSubstr("p50"));
  for (const char* panel : {"rows", "slow exits"}) {
    for (std::size_t width = 40; width <= 120; ++width)
      EXPECT_THAT(screen(width), Not(HasSubstr("not shown"))) << panel << ", columns: " << width;
    press({kTab, kTab, kTab});
  }
}

TEST_F(ViewTest, PanelsWithoutRowsSayWhy) {
  press({kTab, kTab});
  EXPECT_THAT(screen(), HasSubstr("requests"));
  press({kTab});
  EXPECT_THAT(screen(), HasSubstr("slow exits"));
}

// Nothing ends an exit there: neither how many there were nor how long they took is known.
TEST_F(ViewTest, FiguresWithoutEntriesAreNotZero) {
  const test::TemporaryFolder folder;
  std::ofstream out(folder / "trace.txt");
  out << "cpus=1\n";
  for (int i = 0; i < 4; ++i)
    out << " qemu-system-x86-101 [000] 6.79200" << i << ": kvm_exit: reason HLT rip 0x10\n";
  out.close();
  show(folder / "trace.txt");
  EXPECT_THAT(screen(), HasSubstr("  - exits/s"));
  EXPECT_THAT(screen(), Not(HasSubstr("0 exits/s")));
  EXPECT_THAT(screen(200), HasSubstr("  -       -     - "));
  EXPECT_THAT(screen(200), HasSubstr("kvm_entry was not recorded"));
}

TEST_F(ViewTest, QuitsByQOnly) {
  EXPECT_FALSE(view_->key('q'));
  EXPECT_TRUE(view_->key('x'));
}

}  // namespace
}  // namespace trapline::live
