// An exit's key in the dimensions of --by, and the key's text. A new dimension is a case in both.
#pragma once

#include <string>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/report/groups.h"
#include "merge/report/vcpu_names.h"
#include "merge/source/source.h"

namespace trapline {

class ExitKeys {
 public:
  // Borrows all three for as long as it lives.
  ExitKeys(const std::vector<Dimension>& dimensions, const Names& names, const GuestStacks& stacks)
      : dimensions_(dimensions), names_(names), stacks_(stacks) {}

  // The words of a key that are used.
  [[nodiscard]] std::size_t words() const;
  [[nodiscard]] bool has(Dimension dimension) const;

  [[nodiscard]] GroupKey of(const ExitSpan& span, StackId stack) const;
  // "io / rtc"; `source` names the reasons.
  [[nodiscard]] std::string text(const GroupKey& key, const Source& source,
                                 const VcpuNames& vcpus) const;

 private:
  const std::vector<Dimension>& dimensions_;
  const Names& names_;
  const GuestStacks& stacks_;
};

}  // namespace trapline
