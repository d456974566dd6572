#include "backend_ftrace/base/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trapline {
namespace {

constexpr std::uint64_t kTruncate = 1U << 14;  // since Linux 6.2
constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kWrite =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | kTruncate;
constexpr std::uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                   LANDLOCK_ACCESS_FS_READ_FILE | kTruncate;
// struct landlock_ruleset_attr has its second member since Linux 6.7; older headers lack it.
struct Ruleset {
  std::uint64_t files, ports;
};
constexpr std::uint64_t kPorts = 3;  // bind and connect
constexpr long kFirstWithRefer = 2, kFirstWithTruncate = 3, kFirstWithPorts = 4;

}  // namespace

Landlock::Landlock(Reading reading) : reading_(reading == Reading::kNamed ? kRead : 0) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return;
  handled_ = kWrite | LANDLOCK_ACCESS_FS_EXECUTE | reading_;
  if (version < kFirstWithRefer) handled_ &= ~std::uint64_t{LANDLOCK_ACCESS_FS_REFER};
  if (version < kFirstWithTruncate) handled_ &= ~kTruncate;
  const Ruleset rules{handled_, kPorts};
  rules_.reset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules,
                                          version < kFirstWithPorts ? 8 : sizeof rules, 0)));
}

void Landlock::allow(int fd, std::uint64_t access) {
  struct stat status {};
  if (!rules_ || ::fstat(fd, &status) != 0) return;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access & handled_;
  if (!S_ISDIR(status.st_mode)) rule.allowed_access &= kOfFiles;
  rule.parent_fd = fd;
  if (rule.allowed_access == 0) return;
  (void)::syscall(SYS_landlock_add_rule, rules_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

void Landlock::allow(const std::string& path, std::uint64_t access) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (fd) allow(fd.get(), access);
}

void Landlock::allow_reading(const std::string& path) { allow(path, kRead); }
void Landlock::allow_executing(const std::string& path) {
  allow(path, kRead | LANDLOCK_ACCESS_FS_EXECUTE);
}
void Landlock::allow_writing(const std::string& path) { allow(path, kRead | kWrite); }
void Landlock::allow_descriptor(int fd, bool to_write) {
  allow(fd, to_write ? kRead | kWrite : kRead);
}

void Landlock::enforce() {
  if (rules_) (void)::syscall(SYS_landlock_restrict_self, rules_.get(), 0);
}

}  // namespace trapline
