// Formats the arguments and return values of calls that uftrace recorded.
//
// The values' bytes follow the call's record, without a length. The file info has their types: in
// argspec and retspec or, for a function in neither, in argauto and retauto, as
// NAME@arg1/s,arg2/x32;… The values come in this order (a string as u16 length and bytes), each
// padded to 4 bytes, all together to 8. NAME is literal, a regular expression or a glob, as info's
// pattern_type says. docs/formats/uftrace.md.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/format/info.h"

namespace trapline {

class UftraceValues {
 public:
  explicit UftraceValues(const UftraceInfo& info);

  // Returns the size in bytes of the recorded values that `bytes` begins with; 0 if not known.
  [[nodiscard]] std::size_t size(std::string_view function, bool is_return,
                                 std::span<const std::byte> bytes);
  // Returns "(-1, "text")" for a call, " = 4" for a return; nullopt if the bytes do not fit the
  // specification or if there is none.
  [[nodiscard]] std::optional<std::string> text(std::string_view function, bool is_return,
                                                std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kMostFunctions = 1u << 16;

  // A compiled pattern of info: returns whether it matches the function's name.
  using Pattern = std::function<bool(const std::string&)>;
  struct Item {
    std::string place;  // "arg1", "fparg2", "retval"
    char format = 'd';
    unsigned size = 8;  // bytes; unused for a string
  };
  using Items = std::vector<Item>;
  struct Spec {
    std::string pattern;
    Pattern matches;  // null: `pattern` is a name
    Items items;
  };
  // The specifications for calls, or for returns.
  struct Specs {
    std::vector<Spec> all;
    std::size_t patterns = 0;  // how many are not names
  };

  void add(std::string_view list, Specs& specs) const;
  [[nodiscard]] Pattern compiled(const std::string& pattern) const;
  static std::optional<Item> parse_item(std::string_view text);
  [[nodiscard]] static Items collect(const Specs& specs, const std::string& function);
  // Returns the bytes of the item's value at bytes[at] and moves `at` to the next item; nullopt if
  // `bytes` is too short or the item's size is not known.
  static std::optional<std::span<const std::byte>> take(const Item& item,
                                                        std::span<const std::byte> bytes,
                                                        std::size_t& at);
  [[nodiscard]] const Items& items_of(std::string_view function, bool is_return);

  bool glob_ = false, regex_ = true;
  Specs given_[2], automatic_[2];  // by kind: calls, returns
  std::map<std::string, Items, std::less<>> functions_[2];
};

}  // namespace trapline
