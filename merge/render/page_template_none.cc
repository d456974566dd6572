// Used in a build without node; trapline then says which packages are missing.
#include "merge/render/page_template.h"

namespace trapline {

PageTemplate page_template() { return {}; }

}  // namespace trapline
