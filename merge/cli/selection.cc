#include "merge/cli/selection.h"

#include "merge/cli/help.h"

namespace trapline::cli {

void add_selection(CLI::App& command, Selection& selection, const std::string& except, bool exits) {
  const OptionGroup which(command, kWhich);
  which.add("--vm", selection.vcpus.vm, "VM", "Only this VM: name or process id" + except);
  which.add("--vcpu", selection.vcpus.vcpu, "", "Only this vCPU" + except);
  if (exits) {
    which.add("--reason", selection.exits.reason, "NAME",
              "Only exits with this reason (* and ? match)");
    which.add("--device", selection.exits.device, "NAME",
              "Only exits that this device (region; * and ?) served");
    which.rare().add("--detail", selection.exits.detail, "NAME",
                     "Only exits about this port, register or address");
    which.rare().add("--function", selection.exits.function, "NAME",
                     "Only exits from this guest function");
  }
  const auto add_time = [&which](const char* name, NamedTime& time, const std::string& text) {
    which.add(name, time.text, "TIME", text)
        ->check(
            [name, &time](const std::string& typed) -> std::string {
              const auto parsed = parse_time_spec("", typed);
              if (!parsed) return parsed.error().message.substr(2);
              time.option = name;
              time.time = *parsed;
              return {};
            },
            "");
  };
  add_time("--from", selection.from, "Begin at 12.5 (s, as timeline has it) or +500ms");
  add_time("--to", selection.to, "Up to this time, given in the same way");
}

}  // namespace trapline::cli
