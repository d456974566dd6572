#include "merge/report/feed.h"

namespace trapline {

void feed(Timeline& timeline, Pipeline& pipeline, const Progress& progress) {
  feed(timeline, pipeline, progress, [] { return false; });
}

}  // namespace trapline
