// What is added to a QEMU's command line, and what its owner calls the virtual machine.
#include "merge/record/qemu_command.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "merge/record/vm_names.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(QemuCommandTest, AddsWhatIsMissingAndKeepsWhatIsThere) {
  const QemuFacts facts{QemuTracing::kLog, false, "10", ""};
  const QemuOptions requested{{"virtio_*"}, "/marker", Functions::kNone, "", "", "", {}};
  const auto done =
      complete_qemu({"qemu-system-x86_64", "-name", "vm", "-D", "log"}, facts, requested);
  ASSERT_TRUE(done);
  EXPECT_THAT(done->words, ElementsAre("qemu-system-x86_64", "-name", "vm,debug-threads=on", "-D",
                                       "log", "-trace", "virtio_*"));
  EXPECT_EQ(done->warnings.size(), 1u);
  const auto bare = complete_qemu({"qemu-system-x86_64"}, facts, requested);
  ASSERT_TRUE(bare);
  EXPECT_THAT(bare->added, Contains("-D /marker"));
}

TEST(QemuCommandTest, RefusesFunctionsUnderKvmAndDaemons) {
  QemuOptions requested;
  requested.functions = Functions::kUftrace;
  EXPECT_FALSE(complete_qemu({"qemu-system-x86_64", "-enable-kvm"}, {}, requested));
  EXPECT_FALSE(complete_qemu({"qemu-system-x86_64", "-accel", "kvm"}, {}, requested));
  EXPECT_FALSE(complete_qemu({"qemu-system-x86_64", "-daemonize"}, {}, {}));
}

QemuOptions functions(Functions where) {
  QemuOptions requested;
  requested.functions = where;
  requested.plugin = "/lib/libtrapline_plugin.so";
  requested.plugin_out = "/run,1/uftrace.data";
  requested.instance = "trapline-1";
  return requested;
}

TEST(QemuCommandTest, FunctionsGoWhereTheyAreAskedFor) {
  const std::vector<std::string> command{"qemu-system-x86_64"};
  EXPECT_THAT(complete_qemu(command, {}, functions(Functions::kUftrace))->words,
              Contains("/lib/libtrapline_plugin.so,out=/run,,1/uftrace.data"));
  EXPECT_THAT(complete_qemu(command, {}, functions(Functions::kFtrace))->words,
              Contains("/lib/libtrapline_plugin.so,output=ftrace,instance=trapline-1"));
  const auto both = complete_qemu(command, {}, functions(Functions::kBoth));
  EXPECT_THAT(both->words, Contains("/lib/libtrapline_plugin.so,out=/run,,1/uftrace.data,"
                                    "output=both,instance=trapline-1"));
}

TEST(QemuCommandTest, APluginOfTheCommandsOwnIsLeftAlone) {
  const std::vector<std::string> command{"qemu-system-x86_64", "-plugin",
                                         "file=/b/libtrapline_plugin.so,output=ftrace"};
  const auto done = complete_qemu(command, {}, functions(Functions::kNone));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->words[2], command[2]);
  const auto twice = complete_qemu(command, {}, functions(Functions::kBoth));
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("names the plugin itself"));
  const std::vector<std::string> other{"qemu-system-x86_64", "-plugin", "libuftrace.so"};
  EXPECT_EQ(complete_qemu(other, {}, functions(Functions::kBoth))->words.size(), 7);
}

TEST(VmNameTest, OfACgroupIsTheMachinesOrThePods) {
  EXPECT_EQ(vm_name_of_cgroup(
                "0::/machine.slice/machine-qemu\\x2d3\\x2dweb\\x2d01.scope/libvirt/vcpu0\n"),
            "web-01");
  EXPECT_EQ(vm_name_of_cgroup("4:cpu,cpuacct:/machine/qemu-3-web-01.libvirt-qemu/vcpu0\n"),
            "web-01");
  const std::string uid = "0c3f7a52-1b2c-4d5e-8f90-a1b2c3d4e5f6";
  EXPECT_EQ(vm_name_of_cgroup("0::/kubepods.slice/kubepods-burstable.slice/"
                              "kubepods-burstable-pod0c3f7a52_1b2c_4d5e_8f90_a1b2c3d4e5f6.slice/"
                              "cri-containerd-77.scope\n"),
            "pod-" + uid);
  EXPECT_EQ(vm_name_of_cgroup("0::/../../kubepods/besteffort/pod" + uid + "/kata_77\n"),
            "pod-" + uid);
  EXPECT_EQ(vm_name_of_cgroup("0::/user.slice/user-1000.slice/session-2.scope\n"), "");
  EXPECT_EQ(vm_name_of_cgroup("0::/machine.slice/machine-debian.scope/podman\n"), "");
  EXPECT_EQ(vm_name_of_cgroup(""), "");
}

TEST(VmNameTest, IsWhatTheOwnerCallsIt) {
  EXPECT_EQ(vm_name_of({"/usr/bin/qemu-system-x86_64", "-name", "guest=web-1,debug-threads=on"}),
            "web-1");
  EXPECT_EQ(vm_name_of({"qemu-kvm", "-name", "debug-threads=on,guest=a,,b"}), "a,b");
  EXPECT_EQ(vm_name_of({"qemu-system-aarch64", "-name", "db,debug-threads=on"}), "db");
  EXPECT_EQ(vm_name_of({"qemu-system-x86_64", "-name", "debug-threads=on", "-uuid", "1b4e28ba"}),
            "1b4e28ba");
  EXPECT_EQ(vm_name_of({"qemu-system-x86_64", "-m", "64"}), "");
  EXPECT_EQ(vm_name_of({"/q/ld-linux-x86-64.so.2", "--library-path", "/q/lib",
                        "/q/bin/qemu-system-x86_64", "-name", "guest=aside"}),
            "aside");
  EXPECT_EQ(vm_name_of({"firecracker", "--id", "fc-7", "--api-sock", "s"}), "fc-7");
  EXPECT_EQ(vm_name_of({"/usr/bin/qemu-kvm", "-name", "guest=shop_web-1,debug-threads=on"}),
            "shop_web-1");  // KubeVirt
  EXPECT_EQ(
      vm_name_of({"/opt/kata/bin/qemu-system-x86_64", "-name", "sandbox-3f9c,debug-threads=on"}),
      "sandbox-3f9c");
  EXPECT_EQ(vm_name_of(
                {"/opt/kata/bin/cloud-hypervisor", "--api-socket", "/run/vc/vm/3f9c/clh-api.sock"}),
            "sandbox-3f9c");
  EXPECT_EQ(vm_name_of({"cloud-hypervisor", "--api-socket", "/tmp/ch.sock"}), "");
  EXPECT_EQ(
      vm_name_of({"/opt/kata/bin/containerd-shim-kata-v2", "-namespace", "k8s.io", "-id", "3f9c"}),
      "sandbox-3f9c");
  EXPECT_EQ(vm_name_of({"find", "-name", "guest=web-1"}), "");
  EXPECT_EQ(vm_name_of({}), "");
}

TEST(VmNameTest, ProcessesWithoutOneAreLeftOut) {
  VmNames names;
  const std::map<pid_t, Thread> threads{{::getpid(), {::getpid(), "CPU 0/KVM"}}};
  EXPECT_FALSE(names.update(threads));
  EXPECT_THAT(names.vms(threads), IsEmpty());
  EXPECT_FALSE(command_line_of(::getpid()).empty());
}

}  // namespace
}  // namespace trapline::record
