// What uftrace recorded of a call's arguments and of its return value, as text.
//
// The bytes follow their record without a length; what they are is in info's argspec, retspec and,
// where a function has neither, argauto and retauto: NAME@arg1/s,arg2/x32;… For each item in turn
// its bytes (a string: u16 length, bytes), padded to 4; all padded to 8. Names are literal, regular
// expressions or globs, as info's pattern_type says. docs/formats/uftrace.md.
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
  UftraceValues(const UftraceValues&) = delete;  // it points into itself
  UftraceValues& operator=(const UftraceValues&) = delete;

  // How many of the bytes that begin with a payload are the payload, 0 where that is not known.
  [[nodiscard]] std::size_t size(std::string_view function, bool is_return,
                                 std::span<const std::byte> bytes);
  // "(-1, "text")" of a call, " = 4" of a return; nothing where the bytes are not what the
  // specification says, or where none matches.
  [[nodiscard]] std::optional<std::string> text(std::string_view function, bool is_return,
                                                std::span<const std::byte> bytes);

 private:
  static constexpr std::size_t kMostFunctions = 1u << 16;

  // A compiled one of info's patterns.
  using Pattern = std::function<bool(const std::string&)>;
  struct Item {
    std::string place;  // "arg1", "fparg2", "retval"
    char format = 'd';
    unsigned size = 8;  // bytes; of a string without meaning
  };
  using Items = std::vector<Item>;
  struct Spec {
    std::string pattern;
    Items items;
  };
  // Those of one kind of record, and how they are found: by name, or by what a pattern matches.
  struct Specs {
    std::vector<Spec> all;
    std::unordered_multimap<std::string_view, std::size_t> by_name;
    std::vector<std::pair<std::size_t, Pattern>> patterns;
  };

  static void add(std::string_view list, Specs& specs);
  void index(Specs& specs) const;
  static std::optional<Item> parse_item(std::string_view text);
  [[nodiscard]] static Items collect(const Specs& specs, const std::string& function);
  // Takes the item's bytes from those at `at`; nothing where they are too few.
  static std::optional<std::span<const std::byte>> take(const Item& item,
                                                        std::span<const std::byte> bytes,
                                                        std::size_t& at);
  [[nodiscard]] const Items& items_of(std::string_view function, bool is_return);

  bool glob_ = false, regex_ = true;
  Specs given_[2], automatic_[2];  // of calls, of returns
  std::map<std::string, Items, std::less<>> functions_[2];
};

}  // namespace trapline
