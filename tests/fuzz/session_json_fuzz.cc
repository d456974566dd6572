// session.json: what is read and written again is read the same.
#include "merge/session/session_json.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  const std::string input(fuzz::text_of(data, size));
  fuzz::bounded(size, [&] {
    const auto session = parse_session_json(input);
    if (!session) return;
    (void)session->brackets();
    (void)session->has_all_syncs();
    const std::string text = to_text(*session);
    const auto again = parse_session_json(text);
    fuzz::hold(again && to_text(*again) == text, "session.json is not read as it was written");
  });
  return 0;
}
