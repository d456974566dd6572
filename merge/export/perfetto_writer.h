// Packets of a Perfetto trace: a file is a repetition of field 1, TracePacket.
//
// Field numbers are those of the Perfetto project's protos/perfetto/trace (trace_packet.proto,
// track_event/*.proto, ftrace/*.proto); docs/formats/perfetto.md has the tracks and slices.
// All packets are of one sequence with interned texts; timestamps are the timeline's nanoseconds.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge/export/output_file.h"
#include "merge/model/names.h"

namespace trapline {

// A protobuf message written into one buffer, field by field. A trace has millions of packets, for
// which protozero's writers, which append to a string for each byte, are too slow.
class ProtoBuffer {
 public:
  using Field = std::uint32_t;
  ProtoBuffer() = default;
  ProtoBuffer(ProtoBuffer&&) = default;  // no copy: it points into its bytes

  // Inlined, so that the compiler encodes the field's number, which is nearly always a constant.
  [[gnu::always_inline]] void add(Field field, std::uint64_t value) {
    make_room(0);
    at_ = put(put(at_, field << 3), value);
  }
  void add_fixed64(Field field, std::uint64_t value) {
    make_room(0);
    char* const at = put(at_, field << 3 | 1);
    std::memcpy(at, &value, sizeof value);
    at_ = at + sizeof value;
  }
  void add(Field field, std::string_view text) {
    make_room(text.size());
    at_ = put(put(at_, field << 3 | 2), text.size());
    at_ += text.copy(at_, text.size());
  }
  // Adds fields that are encoded already.
  void add_encoded(std::string_view fields) {
    make_room(fields.size());
    at_ += fields.copy(at_, fields.size());
  }
  // Returns the place at which the caller writes fields, of at most `most` bytes; end_at() says
  // where they end.
  [[nodiscard]] char* place_for(std::size_t most) {
    make_room(most);
    return at_;
  }
  void end_at(char* end) { at_ = end; }

  // Begins a message inside this one; end() with the returned number ends it. One byte is left for
  // its length; a long message moves when it ends.
  [[nodiscard]] [[gnu::always_inline]] std::size_t begin(Field field) {
    make_room(0);
    at_ = put(at_, field << 3 | 2) + 1;
    return size();
  }
  void end(std::size_t start) {
    std::size_t length = size() - start;
    if (length < 0x80) [[likely]] {
      bytes_[start - 1] = static_cast<char>(length);
      return;
    }
    make_room(0);
    char* at = &bytes_[start - 1];
    char* const to = at + 1 + (std::bit_width(length) - 1) / 7;
    std::memmove(to, at + 1, length);
    at_ = to + length;
    for (; at + 1 < to; length >>= 7) *at++ = static_cast<char>(length | 0x80);
    *at = static_cast<char>(length);
  }
  // Writes a number at `at` and returns its end. Needs room for eight bytes, whatever the number.
  static char* put(char* at, std::uint64_t number) {
    if (number >= 0x80) return put_large(at, number);
    *at = static_cast<char>(number);
    return at + 1;
  }

  [[nodiscard]] std::string_view bytes() const { return {bytes_.data(), size()}; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(at_ - bytes_.data()); }
  void clear() { at_ = bytes_.data(); }

 private:
  static constexpr std::ptrdiff_t kMostNumber = 32;  // a tag and a number, and what put() may need

  // Makes room for `bytes` bytes, a tag and a number.
  void make_room(std::size_t bytes) {
    if (limit_ - at_ <= static_cast<std::ptrdiff_t>(bytes)) [[unlikely]]
      grow(bytes);
  }
  // Spreads the bits, seven to a byte, all at once: most numbers are times, and a loop is slower.
  static char* put_large(char* at, std::uint64_t number) {
    std::uint64_t bytes = (number & 0x00fffffff0000000) << 4 | (number & 0x000000000fffffff);
    bytes = (bytes & 0x0fffc0000fffc000) << 2 | (bytes & 0x00003fff00003fff);
    bytes = (bytes & 0x3f803f803f803f80) << 1 | (bytes & 0x007f007f007f007f);
    const std::uint64_t above = number >> 56;
    const unsigned last = above != 0 ? 8 : (static_cast<unsigned>(std::bit_width(number)) - 1) / 7;
    bytes |= 0x8080808080808080 >> (64 - 8 * last);
    std::memcpy(at, &bytes, sizeof bytes);
    return above != 0 ? put(at + last, above) : at + last + 1;
  }
  [[gnu::noinline]] void grow(std::size_t bytes) {
    const std::size_t used = size();
    bytes_.resize(2 * bytes_.size() + bytes + 256);
    at_ = bytes_.data() + used;
    limit_ = bytes_.data() + bytes_.size() - kMostNumber;
  }

  std::vector<char> bytes_;
  char* at_ = nullptr;     // the end of what is written
  char* limit_ = nullptr;  // only a tag and a number have room after this place
};

}  // namespace trapline

namespace trapline::perfetto {

// A text as its number in the trace. `text` itself is written if there were too many to number.
struct Text {
  std::uint64_t id = 0;
  std::string_view text = {};
};

struct Annotation {
  std::uint64_t key = 0;  // what Writer::key() returned
  Text text = {};
  std::optional<std::uint64_t> pointer = {};  // written instead of the text
};

// The data that is written where a slice begins.
struct Slice {
  Text name;
  std::uint64_t category = 0;  // what Writer::category() returned
  std::span<const Annotation> annotations = {};
  std::span<const std::uint64_t> flows = {}, ending_flows = {};
};

class Writer {
 public:
  explicit Writer(OutputFile output);

  // Return the number of a text, which is written to the trace on first use. 0: the text is empty,
  // or there are too many.
  [[nodiscard]] std::uint64_t category(std::string_view text) { return intern(categories_, text); }
  [[nodiscard]] std::uint64_t key(std::string_view text) { return intern(keys_, text); }
  [[nodiscard]] Text name(std::string_view text) { return {intern(names_, text), text}; }
  [[nodiscard]] Text value(std::string_view text) { return {intern(values_, text), text}; }

  // Adds a track below `parent` (0: at the top) and returns its number. A track with a unit shows a
  // counter.
  [[nodiscard]] std::uint64_t add_track(std::uint64_t parent, std::string_view name, int rank = 0,
                                        bool explicit_order = false, const char* unit = nullptr);
  void begin(std::uint64_t track, std::uint64_t at, const Slice& slice) {
    event(track, at, Type::kBegin, slice);
  }
  void end(std::uint64_t track, std::uint64_t at);
  void instant(std::uint64_t track, std::uint64_t at, const Slice& slice) {
    event(track, at, Type::kInstant, slice);
  }
  void count(std::uint64_t track, std::uint64_t at, double value);

  // Native events of a kernel, with times of its machine's clock. Add those of one machine and CPU
  // in the order of their times. Texts must be printable.
  struct Switch {
    std::uint64_t at = 0;
    std::int32_t prev = 0, next = 0;
    std::int64_t prev_state = 0;
    std::string_view prev_comm, next_comm;
  };
  void add_switch(std::uint32_t machine, std::uint32_t cpu, const Switch& change);
  void add_waking(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at, std::int32_t waker,
                  std::int32_t woken, std::string_view comm);
  void add_generic(std::uint32_t machine, std::uint32_t cpu, std::uint64_t at, std::int32_t thread,
                   std::string_view name, std::string_view text);

  // Relates a guest's clock to the trace's, which is the host's: `own` and `at` are one instant on
  // both. Perfetto places a guest's event by the last such instant that is not after the event.
  void add_clocks(std::uint32_t machine, std::uint64_t own, std::uint64_t at);

  struct Thread {
    std::int32_t tid = 0, process = 0;
    std::string name;
  };
  void add_threads(const std::vector<Thread>& threads);

  [[nodiscard]] bool failed() const { return output_.failed(); }
  [[nodiscard]] Result<void> finish();

 private:
  enum class Type : std::uint8_t { kBegin = 1, kEnd, kInstant, kCounter };  // of TrackEvent
  // How many bytes are collected before they are written, for the file and for a CPU's events.
  static constexpr std::size_t kPiece = std::size_t{64} << 10;
  struct Interned {
    ProtoBuffer::Field field;  // its field in InternedData
    Names ids = {};            // a text's id here is its number in the trace plus Names::kOther
  };
  std::uint64_t intern(Interned& texts, std::string_view text);
  // Begins a packet of the sequence; add its other fields before end_packet(). Packets of another
  // machine are a sequence of their own, which has no interned texts.
  [[nodiscard]] std::size_t begin_packet(std::uint32_t machine = 0);
  void end_packet(std::size_t packet);
  void flush();
  [[nodiscard]] char* begin_slice(std::uint64_t track, std::uint64_t at, Type type);
  void end_slice(char* event);
  void event(std::uint64_t track, std::uint64_t at, Type type, const Slice& slice);
  void annotate(const Annotation& annotation);
  ProtoBuffer& bundle(std::uint32_t machine, std::uint32_t cpu);
  void flush_bundle(std::uint64_t key, ProtoBuffer& events);

  OutputFile output_;
  ProtoBuffer out_;
  // The beginning of a track event's packet: its tag and length, the sequence, its flags, and the
  // time of the last packet.
  static constexpr std::size_t kTimeAt = 7;
  std::array<char, 24> head_ = {1 << 3 | 2, 0, 10 << 3, 1, 13 << 3, 2, 8 << 3};
  std::ptrdiff_t head_size_ = kTimeAt + 1;
  std::uint64_t head_at_ = 0;
  Interned categories_{1}, names_{2}, keys_{3}, values_{29};
  std::unordered_map<std::uint64_t, ProtoBuffer> bundles_;  // by machine and CPU
  std::uint64_t last_track_ = 0;
};

}  // namespace trapline::perfetto
