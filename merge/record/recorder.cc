#include "merge/record/recorder.h"

#include "backend_ftrace/base/text.h"
#include "merge/record/recording_run.h"

namespace trapline::record {

Result<Functions> parse_functions(std::string_view text) {
  for (const Functions functions : {Functions::kUftrace, Functions::kFtrace, Functions::kBoth})
    if (text == name_of(functions)) return functions;
  return fail(ErrorKind::kUsage, "--functions={}: one of uftrace, ftrace, both is expected",
              printable(text));
}

std::string_view name_of(Functions functions) {
  constexpr std::string_view kNames[] = {"none", "uftrace", "ftrace", "both"};
  return kNames[static_cast<std::size_t>(functions)];
}

Result<int> record(const RecordOptions& options) { return RecordingRun(options).run(); }

}  // namespace trapline::record
