#include "merge/report/phase_spec.h"

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

bool parse_address(std::string_view text, std::uint64_t& value) {
  const auto number = text.starts_with("0x") ? parse_number(text) : std::nullopt;
  value = number.value_or(0);
  return number.has_value();
}

}  // namespace

Result<PhaseSpec> parse_phase_spec(std::string_view text) {
  constexpr std::string_view kFunction = "function:";
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return fail(ErrorKind::kUsage,
                "--phase: '{}' is not NAME=PATTERN; use init='Run /init', "
                "kernel=function:start_kernel or kernel=0xffffffff80000000..0xffffffffffffffff",
                text);
  }
  PhaseSpec spec;
  spec.name = text.substr(0, equals);
  const std::string_view pattern = text.substr(equals + 1);
  spec.pattern = pattern;
  const auto dots = pattern.find("..");
  if (dots != std::string_view::npos && parse_address(pattern.substr(0, dots), spec.first) &&
      parse_address(pattern.substr(dots + 2), spec.last)) {
    spec.kind = PhaseSpec::Kind::kAddresses;
    if (spec.last < spec.first)
      return fail(ErrorKind::kUsage, "--phase: '{}' ends before it begins", pattern);
  } else if (pattern.starts_with(kFunction)) {
    spec.kind = PhaseSpec::Kind::kFunction;
    spec.text = pattern.substr(kFunction.size());
  } else {
    spec.text = pattern;
  }
  return spec;
}

std::vector<PhaseSpec> default_phases() {
  std::vector<PhaseSpec> specs(2);
  specs[0].name = "kernel";
  specs[0].pattern = "an address of the upper half";
  specs[0].kind = PhaseSpec::Kind::kAddresses;
  specs[0].first = 0xffff'0000'0000'0000;
  specs[0].last = 0xffff'ffff'ffff'ffff;
  specs[1].name = "init";
  specs[1].pattern = specs[1].text = "Run * as init process";
  return specs;
}

}  // namespace trapline
