#include "plugin/format/info.h"

#include <algorithm>
#include <cstring>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr std::string_view kSignature("Ftrace!\0", 8);
constexpr std::uint16_t kHeaderSize = 40;
constexpr std::uint32_t kVersion = 4;

// The bits of the info mask that the writer uses, in the order of their lines.
enum InfoBit : unsigned {
  kExeName = 0,
  kBuildId = 1,
  kExitStatus = 2,
  kCmdline = 3,
  kCpuInfo = 4,
  kOsInfo = 6,
  kTaskInfo = 7,
  kArgSpec = 10,
  kRecordDate = 11,
  kPatternType = 12,
  kVersionLine = 13,
};

template <typename T>
T get(std::string_view file, std::size_t at) {
  return trapline::load<T>(reinterpret_cast<const std::byte*>(file.data()) + at);
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
  return text;
}

std::vector<std::uint32_t> parse_tids(std::string_view text) {
  std::vector<std::uint32_t> tids;
  while (!text.empty()) {
    std::uint32_t tid = 0;
    if (!take_number(text, tid)) break;
    tids.push_back(tid);
    if (!text.empty()) text.remove_prefix(1);
  }
  return tids;
}

void parse_line(std::string_view line, UftraceInfo& info) {
  const auto take = [&line](std::string_view key) {
    if (!line.starts_with(key)) return false;
    line.remove_prefix(key.size());
    return true;
  };
  if (take("exename:"))
    info.exename = line;
  else if (take("build_id:"))
    info.build_id = line;
  else if (take("cmdline:"))
    info.cmdline = line;
  else if (take("cpuinfo:desc="))
    info.cpu_description = line;
  else if (take("cpuinfo:nr_cpus="))
    (void)take_number(line, info.cpus);
  else if (take("osinfo:kernel="))
    info.kernel = line;
  else if (take("osinfo:hostname="))
    info.hostname = line;
  else if (take("osinfo:distro="))
    info.distro = line;
  else if (take("taskinfo:tids="))
    info.tids = parse_tids(line);
  else if (take("record_date:"))
    info.record_date = line;
  else if (take("elapsed_time:"))
    info.elapsed_time = line;
  else if (take("uftrace_version:"))
    info.version = line;
  else if (take("argspec:lines="))
    return;
  else if (take("argspec:"))
    info.argspecs.emplace_back(line);
  else if (take("retspec:"))
    info.retspecs.emplace_back(line);
  else if (take("argauto:"))
    info.argauto = line;
  else if (take("retauto:"))
    info.retauto = line;
  else if (take("pattern_type:"))
    info.pattern_type = line;
}

}  // namespace

std::string format_info(const UftraceInfo& info) {
  std::string tids;
  for (const std::uint32_t tid : info.tids)
    tids += fmt::format("{}{}", tids.empty() ? "" : ",", tid);
  std::string specs;
  if (!info.argspecs.empty()) {
    specs = fmt::format("argspec:lines={}\n", info.argspecs.size());
    for (const std::string& spec : info.argspecs)
      specs += fmt::format("argspec:{}\n", one_line(spec));
  }
  const std::string pattern = info.pattern_type.empty()
                                  ? ""
                                  : fmt::format("pattern_type:{}\n", one_line(info.pattern_type));
  const std::string body = fmt::format(
      "exename:{}\nbuild_id:{}\nexit_status:0\ncmdline:{}\n"
      "cpuinfo:lines=2\ncpuinfo:nr_cpus={} / {} (online/possible)\ncpuinfo:desc={}\n"
      "osinfo:lines=3\nosinfo:kernel={}\nosinfo:hostname={}\nosinfo:distro={}\n"
      "taskinfo:lines=2\ntaskinfo:nr_tid={}\ntaskinfo:tids={}\n"
      "{}record_date:{}\nelapsed_time:{}\n{}uftrace_version:{}\n",
      one_line(info.exename),
      info.build_id.empty() ? std::string(40, '0') : one_line(info.build_id),
      one_line(info.cmdline), info.cpus, info.cpus, one_line(info.cpu_description),
      one_line(info.kernel), one_line(info.hostname), one_line(info.distro), info.tids.size(), tids,
      specs, one_line(info.record_date), one_line(info.elapsed_time), pattern,
      one_line(info.version));
  std::uint64_t mask = 0;
  for (const InfoBit bit : {kExeName, kBuildId, kExitStatus, kCmdline, kCpuInfo, kOsInfo, kTaskInfo,
                            kRecordDate, kVersionLine})
    mask |= std::uint64_t{1} << bit;
  if (!specs.empty()) mask |= std::uint64_t{1} << kArgSpec;
  if (!pattern.empty()) mask |= std::uint64_t{1} << kPatternType;
  std::string out(kSignature);
  const auto put = [&out](auto number) { append(out, number, std::endian::little); };
  put(kVersion);
  put(kHeaderSize);
  put(std::uint8_t{1});  // little-endian
  put(std::uint8_t{2});  // 64-bit
  put(info.features);
  put(mask);
  put(static_cast<std::uint16_t>(info.max_stack));
  out.append(6, '\0');
  return out + body;
}

Result<UftraceInfo> parse_info(std::string_view file, const std::string& path) {
  if (file.size() < kHeaderSize || !file.starts_with(kSignature))
    return fail(ErrorKind::kDamaged, "{} is not a uftrace info file", path);
  const auto version = get<std::uint32_t>(file, 8);
  const auto header = get<std::uint16_t>(file, 12);
  if (version < 3 || version > 4 || header < kHeaderSize || header > file.size())
    return fail(ErrorKind::kDamaged,
                "{}: file version {} (header of {} bytes) is not known; 3 and 4 are", path, version,
                header);
  if (file[14] != 1 || file[15] != 2)
    return fail(ErrorKind::kDamaged, "{}: only little-endian 64-bit recordings can be read", path);
  UftraceInfo info;
  info.features = get<std::uint64_t>(file, 16);
  info.info_mask = get<std::uint64_t>(file, 24);
  info.max_stack = get<std::uint16_t>(file, 32);
  for (std::string_view rest = file.substr(header); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    parse_line(rest.substr(0, end), info);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return info;
}

}  // namespace trapline
