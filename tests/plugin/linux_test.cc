// Debian's kernel booted under the plugin: names from the guest's own /proc/kallsyms, every task in
// order and balanced, next to no unmatched returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "backend_ftrace/base/text.h"
#include "plugin/format/directory.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::IsEmpty;

// A Linux guest as tests/guest/plugin/linux/make makes it.
std::string linux_guest(const std::string& arch) {
  return std::string(TRAPLINE_BINARY_DIR) + "/tests/linux-" + arch;
}

Output make_guest(const std::string& arch) {
  return run({std::string(TRAPLINE_SOURCE_DIR) + "/tests/guest/plugin/linux/make", arch,
              linux_guest(arch)},
             400);
}

Output boot(const std::string& version, const std::string& arch, const std::string& initramfs,
            const std::string& processors, const std::string& plugin_options) {
  const bool arm = arch == "arm64";
  std::vector<std::string> command{qemu_folder(version) + "/bin/qemu-system-" +
                                   (arm ? "aarch64" : "x86_64")};
  if (arm) command.insert(command.end(), {"-M", "virt", "-cpu", "cortex-a57"});
  command.insert(command.end(), {"-accel",
                                 "tcg",
                                 "-m",
                                 "256",
                                 "-smp",
                                 processors,
                                 "-display",
                                 "none",
                                 "-nodefaults",
                                 "-no-reboot",
                                 "-serial",
                                 "stdio",
                                 "-kernel",
                                 linux_guest(arch) + "/kernel",
                                 "-initrd",
                                 initramfs,
                                 "-append",
                                 std::string(arm ? "console=ttyAMA0"
                                                 : "console=ttyS0 tsc=reliable no_timer_check") +
                                     " quiet panic=-1 nokaslr",
                                 "-plugin",
                                 plugin_path() + "," + plugin_options});
  return run(command, 600);
}

class LinuxTest
    : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(LinuxTest, ABootIsNamedBalancedAndMatched) {
  const auto [version, arch, contexts] = GetParam();
  TRAPLINE_REQUIRE(!qemu_folder(version).empty(), std::string("scripts/fetch qemu") + version);
  const Output made = make_guest(arch);
  TRAPLINE_REQUIRE(made.exit_code() == 0, "a kernel to boot: " + made.err);
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const std::string guest = linux_guest(arch);
  const Output output =
      boot(version, arch, guest + "/initramfs.img", "1",
           "out=" + data + ",symbols=" + guest + "/kallsyms,contexts=" + contexts);
  EXPECT_THAT(output.out, ::testing::HasSubstr("BOOTED"));
  EXPECT_THAT(imbalances(data), IsEmpty());
  std::smatch counts;
  ASSERT_TRUE(std::regex_search(output.err, counts, std::regex("(\\d+) returns, (\\d+) unmatched")))
      << output.err;
  const double returns = std::stod(counts[1]);
  EXPECT_GT(returns, 1e6);
  EXPECT_LT(std::stod(counts[2]), 0.002 * returns) << output.err;

  // Names: at most a few records in a thousand lie outside the kernel's symbols (firmware, the
  // decompressor, busybox).
  auto directory = DataDirectory::open(data);
  ASSERT_TRUE(directory);
  auto symbols = directory->symbols("0");
  ASSERT_TRUE(symbols);
  std::uint64_t kernel = 0, named = 0, clones = 0;
  for (const std::uint32_t tid : directory->tids()) {
    auto reader = directory->records(tid);
    ASSERT_TRUE(reader);
    for (auto next = reader->next(); next && *next; next = reader->next()) {
      const Record record = **next;
      if (record.type() != RecordType::kEntry || record.address() >> 47 == 0) continue;
      ++kernel;
      const Symbol* symbol = symbols->find(record.address());
      if (symbol == nullptr) continue;
      ++named;
      if (symbol->name == "kernel_clone") ++clones;
    }
  }
  EXPECT_GT(named, kernel * 99 / 100);
  EXPECT_GE(clones, 200u);
}

// A program of the guest, with its libc, in an initramfs behind the other.
class LinuxProgramTest : public ::testing::TestWithParam<
                             std::tuple<const char*, const char*, const char*, const char*>> {};

TEST_P(LinuxProgramTest, EveryCallIsCountedOnce) {
  const auto [version, arch, contexts, processors] = GetParam();
  TRAPLINE_REQUIRE(!qemu_folder(version).empty(), std::string("scripts/fetch qemu") + version);
  const Output made = make_guest(arch);
  TRAPLINE_REQUIRE(made.exit_code() == 0, "a kernel to boot: " + made.err);
  const std::string program =
      std::string(TRAPLINE_BINARY_DIR) + "/tests/guest/plugin/linux-calls-" + arch;
  TemporaryFolder folder;
  const Output packed =
      run({"bash", "-c",
           "cd '" + folder.path() + "' && mkdir root && cp '" + program +
               "' root/calls && printf '#!/bin/busybox sh\\n/calls\\n/bin/busybox poweroff -f\\n'"
               " >root/init && chmod 755 root/init && (cat '" +
               linux_guest(arch) +
               "/initramfs.img'; cd root && find . | cpio -o -H newc --quiet | gzip -1) >img"});
  ASSERT_EQ(packed.exit_code(), 0) << packed.err;
  const std::string data = folder / "uftrace.data";
  const Output output =
      boot(version, arch, folder / "img", processors,
           "out=" + data + ",symbols=" + program + ",code=symbols,contexts=" + contexts);
  const auto at = output.out.find("CALLED ");
  ASSERT_NE(at, std::string::npos) << output.out << output.err;
  std::istringstream truth(output.out.substr(at + 7, output.out.find('\n', at) - at - 7));
  auto calls = reported_calls(data);
  std::uint64_t count = 0;
  for (std::string name; truth >> name >> count;) {
    EXPECT_EQ(calls[name], count) << name;
  }
  EXPECT_EQ(calls["leaf"], 712050u);
  EXPECT_THAT(imbalances(data), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Calls, LinuxProgramTest,
                         ::testing::Values(std::tuple("10", "amd64", "privilege", "1"),
                                           std::tuple("10", "amd64", "stack", "2"),
                                           std::tuple("10", "arm64", "stack", "2"),
                                           std::tuple("11", "amd64", "privilege", "1"),
                                           std::tuple("11", "amd64", "vcpu", "1"),
                                           std::tuple("11", "arm64", "vcpu", "1")),
                         [](const auto& test) {
                           return std::string("Qemu") + std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param) + "_" + std::get<2>(test.param) + "_" +
                                  std::get<3>(test.param);
                         });

INSTANTIATE_TEST_SUITE_P(Boot, LinuxTest,
                         ::testing::Values(std::tuple("10", "amd64", "vcpu"),
                                           std::tuple("10", "arm64", "stack"),
                                           std::tuple("11", "amd64", "stack"),
                                           std::tuple("11", "arm64", "vcpu")),
                         [](const auto& test) {
                           return std::string("Qemu") + std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param) + "_" + std::get<2>(test.param);
                         });

}  // namespace
}  // namespace trapline::test
