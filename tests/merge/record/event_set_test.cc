// Which of a kernel's events an option of `record` enables.
#include "merge/record/event_set.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

TEST(EventSetTest, HostCpuHasAllThatTellsOfInterruptsAsFarAsTheKernelHasIt) {
  const test::TemporaryFolder tracefs;
  const auto has = [&tracefs](const std::string& system, const std::string& name) {
    const std::string folder = tracefs.path() + "/events/" + system;
    fs::create_directories(folder + '/' + name);
    std::ofstream(folder + "/enable") << "0\n";
    std::ofstream(folder + '/' + name + "/enable") << "0\n";
  };
  const auto chosen = [&tracefs] {
    EventChoice choice{.kvm = false};
    choice.host_cpu = true;
    std::vector<std::string> names;
    const auto events = choose_events(tracefs.path(), choice);
    for (const EventName& event : events.value()) names.push_back(event.full_name());
    return names;
  };
  for (const char* event : {"irq_handler_exit", "softirq_exit", "softirq_raise"}) has("irq", event);
  EXPECT_THAT(chosen(), testing::ElementsAre("irq:irq_handler_exit", "irq:softirq_exit"));
  for (const char* event : {"local_timer_exit", "reschedule_entry", "vector_setup"})
    has("irq_vectors", event);
  EXPECT_THAT(chosen(),
              testing::ElementsAre("irq:irq_handler_exit", "irq:softirq_exit",
                                   "irq_vectors:local_timer_exit", "irq_vectors:reschedule_entry"));
}

}  // namespace
}  // namespace trapline::record
