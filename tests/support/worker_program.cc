// The worker of this build, for a test program: it has none beside it.
#include <cstdlib>

namespace {
const bool kNamed =
    ::setenv("TRAPLINE_WORKER", TRAPLINE_BINARY_DIR "/merge/trapline-worker", 0) == 0;
}  // namespace
