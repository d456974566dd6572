// The records of a uftrace directory as uftrace itself reads them.
#pragma once

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/plugin/qemu_run.h"

namespace trapline::test {

// A line for each record: "TIME TID entry|exit NAME ADDRESS DEPTH".
inline std::vector<std::string> calls_in_dump(const std::string& dump) {
  std::istringstream text(dump);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    char name[256], kind[8];
    unsigned long long seconds = 0, ns = 0, address = 0;
    int tid = 0, depth = 0;
    if (std::sscanf(line.c_str(), "%llu.%llu %d: [%5[a-z] ] %255[^(](%llx) depth: %d", &seconds,
                    &ns, &tid, kind, name, &address, &depth) == 7 ||
        std::sscanf(line.c_str(), "%llu.%llu %d: [%5[a-z]] %255[^(](%llx) depth: %d", &seconds, &ns,
                    &tid, kind, name, &address, &depth) == 7) {
      const std::string text_kind(kind);
      if (text_kind != "entry" && text_kind != "exit") continue;
      lines.push_back(
          fmt::format("{}.{:09} {} {} {} {:x} {}", seconds, ns, tid, kind, name, address, depth));
    }
  }
  return lines;
}

inline std::vector<std::string> dumped(const std::string& directory) {
  return calls_in_dump(run({"uftrace", "dump", "--no-pager", "-d", directory}).out);
}

}  // namespace trapline::test
