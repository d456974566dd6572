#include "merge/cli/selection.h"

#include "merge/cli/help.h"

namespace trapline::cli {

Result<void> SelectionOptions::parse(Selection& which) const {
  which = {vcpus, exits, {}, {}};
  for (const auto& [name, text, time] :
       {std::tuple{"--from", &from, &which.from}, std::tuple{"--to", &to, &which.to}}) {
    auto parsed = parse_named_time(name, *text);
    if (!parsed) return tl::unexpected(std::move(parsed).error());
    *time = *parsed;
  }
  return {};
}

std::vector<std::string> SelectionOptions::vcpu_and_exit_words() const {
  std::vector<std::string> words;
  if (!vcpus.vm.empty()) words = {"--vm", vcpus.vm};
  if (vcpus.vcpu) words.insert(words.end(), {"--vcpu", std::to_string(*vcpus.vcpu)});
  for (const auto& [option, pattern] : exits.options())
    words.insert(words.end(), {std::string(option), pattern});
  return words;
}

std::vector<std::string> SelectionOptions::time_words() const {
  std::vector<std::string> words;
  if (!from.empty()) words = {"--from", from};
  if (!to.empty()) words.insert(words.end(), {"--to", to});
  return words;
}

std::vector<std::string> SelectionOptions::words() const {
  std::vector<std::string> all = vcpu_and_exit_words();
  for (std::string& word : time_words()) all.push_back(std::move(word));
  return all;
}

void add_selection(CLI::App& command, SelectionOptions& options, const std::string& except,
                   bool exits) {
  const OptionGroup which(command, kWhich);
  which.add("--vm", options.vcpus.vm, "VM", "Only this VM: name or process id" + except);
  which.add("--vcpu", options.vcpus.vcpu, "", "Only this vCPU" + except);
  if (exits) {
    which.add("--reason", options.exits.reason, "NAME",
              "Only exits with this reason (* and ? match)");
    which.add("--device", options.exits.device, "NAME",
              "Only exits that this device (region; * and ?) served");
    which.rare().add("--detail", options.exits.detail, "NAME",
                     "Only exits about this port, register or address");
    which.rare().add("--function", options.exits.function, "NAME",
                     "Only exits from this guest function");
  }
  which.add("--from", options.from, "TIME", "Begin at 12.5 (s, as timeline has it) or +500ms");
  which.add("--to", options.to, "TIME", "Up to this time, given in the same way");
}

}  // namespace trapline::cli
