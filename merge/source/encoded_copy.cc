// Decodes files that were encoded for sending: gzip, zstd, UTF-16, the quoted-printable and base64
// of mails, HTML, the colours of grep. An encoded file is decoded once, to a temporary file, and
// read from there. In a mail, only the encoded parts are changed.
#include "merge/source/stream_copy.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline {
namespace {

constexpr std::size_t kFirst = 4U << 10, kHead = 256U << 10, kMostText = 64U << 20,
                      kChunk = 256U << 10;
constexpr std::uint64_t kMostGrowth = 1000;

enum class Encoding : std::uint8_t { kNone, kGzip, kZstd, kUtf16, kMail, kHtml, kColours };

std::string read_at(int file, std::uint64_t offset, std::size_t most) {
  std::string bytes(most, '\0');
  const ssize_t got = ::pread(file, bytes.data(), most, static_cast<off_t>(offset));
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

// ---- streams

// Decompresses gzip: step() goes from `in` to `out` until one of them is used up; false on damage.
class Inflating {
 public:
  Inflating() : usable_(::inflateInit2(&stream_, 15 + 16) == Z_OK) {}
  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;
  ~Inflating() {
    if (usable_) ::inflateEnd(&stream_);
  }
  bool step(std::string_view& in, std::string& out) {
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    out.resize(kChunk);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int status = usable_ ? ::inflate(&stream_, Z_NO_FLUSH) : Z_MEM_ERROR;
    in.remove_prefix(in.size() - stream_.avail_in);
    out.erase(kChunk - std::min<std::size_t>(kChunk, stream_.avail_out));
    is_end_ = status == Z_STREAM_END;
    // A gzip file can have several members.
    if (is_end_ && ::inflateReset(&stream_) != Z_OK) return false;
    return is_end_ || status == Z_OK || (status == Z_BUF_ERROR && in.empty());
  }
  [[nodiscard]] bool is_end() const { return is_end_; }

 private:
  z_stream stream_{};
  bool usable_, is_end_ = false;
};

class Unzstd {
 public:
  bool step(std::string_view& in, std::string& out) {
    out.resize(kChunk);
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left =
        context_ ? ZSTD_decompressStream(context_.get(), &to, &from) : std::size_t{1};
    in.remove_prefix(from.pos);
    out.resize(to.pos);
    is_end_ = left == 0;
    return context_ && ZSTD_isError(left) == 0;
  }
  [[nodiscard]] bool is_end() const { return is_end_; }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_{ZSTD_createDCtx()};
  bool is_end_ = false;
};

template <typename Stream>
Result<void> unpack(const std::string& path, std::string_view tool, int file, int copy) {
  Stream stream;
  std::string out;
  std::uint64_t offset = 0, written = 0;
  for (;;) {
    const std::string block = read_at(file, offset, kChunk);
    std::string_view in = block;
    offset += block.size();
    if (block.empty()) break;
    do {
      if (!stream.step(in, out))
        return fail(ErrorKind::kDamaged, "{}: is damaged; what is left of it: {} -dc {} > FILE",
                    path, tool, path);
      written += out.size();
      if (written > offset * kMostGrowth + kMostText)
        return fail(ErrorKind::kDamaged, "{}: grows more than {} times; no trace does", path,
                    kMostGrowth);
      if (auto wrote = write_all(copy, out, path + ": its temporary copy"); !wrote) return wrote;
    } while (!in.empty() || (out.size() == kChunk && !stream.is_end()));
  }
  if (stream.is_end()) return {};
  return fail(ErrorKind::kDamaged, "{}: ends early; what is there of it: {} -dc {} > FILE", path,
              tool, path);
}

// ---- texts

void add_utf8(std::uint32_t code, std::string& out) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    add(0xe0 | (code >> 12 & 0xf));
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

// Returns whether the text is UTF-16: a byte order mark, then ASCII letters. The mark alone is not
// enough, because a kernel's pages may begin with any bytes.
bool is_utf16(std::string_view head) {
  constexpr std::size_t kLook = 256;
  const bool big = head.starts_with("\xfe\xff");
  if (!big && !head.starts_with("\xff\xfe")) return false;
  head = head.substr(2, kLook);
  std::size_t letters = 0;
  for (std::size_t i = 0; i + 1 < head.size(); i += 2)
    letters += head[big ? i : i + 1] == '\0' && head[big ? i + 1 : i] > 0 ? 1U : 0U;
  return letters * 2 * 10 > head.size() * 9;
}

std::string from_utf16(std::string_view text) {
  const bool big = text.starts_with('\xfe');
  std::string out;
  for (std::size_t i = 2; i + 1 < text.size(); i += 2) {
    const auto first = static_cast<unsigned char>(text[i]),
               second = static_cast<unsigned char>(text[i + 1]);
    add_utf8(big ? first << 8U | second : second << 8U | first, out);
  }
  return out;
}

std::optional<std::uint32_t> hex_digits(std::string_view two) {
  std::uint32_t value = 0;
  if (two.size() != 2 || !take_number(two, value, 16) || !two.empty()) return std::nullopt;
  return value;
}

int base64_value(char c) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t at = kDigits.find(c);
  return at == kDigits.npos ? -1 : static_cast<int>(at);
}
std::string_view without_return(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}
bool is_base64(std::string_view line) {
  line = line.substr(0, std::min(line.find('='), line.size()));
  return !line.empty() && std::ranges::all_of(line, [](char c) { return base64_value(c) >= 0; });
}
void add_base64(std::string_view line, std::uint32_t& bits, int& have, std::string& out) {
  for (const char c : line) {
    const int value = base64_value(c);
    if (value < 0) continue;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
}

void add_quoted_printable(std::string_view line, std::string& out) {
  line = without_return(line);
  while (line.ends_with(' ')) line.remove_suffix(1);
  const bool goes_on = line.ends_with('=');
  if (goes_on) line.remove_suffix(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = line[i] == '=' ? hex_digits(line.substr(i + 1, 2)) : std::nullopt;
    out += byte ? static_cast<char>(*byte) : line[i];
    if (byte) i += 2;
  }
  if (!goes_on) out += '\n';
}

enum class Transfer : std::uint8_t { kPlain, kBase64, kQuotedPrintable };

// Parses "Content-Transfer-Encoding: base64", in upper or lower case.
std::optional<Transfer> transfer_of(std::string_view line) {
  constexpr std::string_view kHeader = "content-transfer-encoding:";
  if (lowered(line.substr(0, kHeader.size())) != kHeader) return std::nullopt;
  const std::string value = lowered(trimmed(line.substr(kHeader.size())));
  return value == "base64"             ? Transfer::kBase64
         : value == "quoted-printable" ? Transfer::kQuotedPrintable
                                       : Transfer::kPlain;
}

// Guesses a text's encoding from its lines alone, without a mail's headers. Quoted-printable: some
// lines end with "=", and each other "=" begins an escape. Base64: all lines are base64.
Transfer bare_transfer(std::string_view head) {
  constexpr std::size_t kLeastLines = 3;
  std::size_t joins = 0, lines = 0, base64 = 0, width = 0;
  bool escapes = true;
  while (!head.empty()) {
    const bool is_last = head.find('\n') == head.npos;
    const std::string_view line = without_return(take_line(head));
    if (is_last && lines >= kLeastLines) break;  // the last line may be incomplete
    if (lines++ == 0) width = line.size();
    base64 += is_base64(line) && line.size() <= width ? 1U : 0U;
    joins += line.ends_with('=') ? 1U : 0U;
    for (std::size_t at = line.find('='); at < line.size() - 1 && at != line.npos && escapes;
         at = line.find('=', at + 1))
      escapes = hex_digits(line.substr(at + 1, 2)).has_value();
  }
  if (lines >= kLeastLines && width >= 40 && width % 4 == 0 && base64 == lines)
    return Transfer::kBase64;
  return joins >= kLeastLines && escapes ? Transfer::kQuotedPrintable : Transfer::kPlain;
}

std::string from_mail(std::string_view text) {
  std::string out;
  Transfer transfer = bare_transfer(text.substr(0, kHead));
  // True from a line Content-Transfer-Encoding to the empty line that ends the part's header.
  bool in_header = false;
  std::uint32_t bits = 0;
  int have = 0;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (const auto known = transfer_of(line)) {
      transfer = *known;
      in_header = true;
      continue;
    }
    const bool ends = transfer != Transfer::kPlain && !in_header &&
                      (line.starts_with("--") || line.starts_with("From "));
    if (ends) transfer = Transfer::kPlain;
    if (in_header || transfer == Transfer::kPlain) {
      in_header = in_header && !without_return(line).empty();
      bits = 0;
      have = 0;
      (out += line) += '\n';
    } else if (transfer == Transfer::kBase64) {
      add_base64(line, bits, have, out);
    } else {
      add_quoted_printable(line, out);
    }
  }
  return out;
}

struct Replacement {
  std::string_view text, with;
};
constexpr Replacement kEntities[] = {
    {"&lt;", "<"},   {"&gt;", ">"},   {"&quot;", "\""}, {"&nbsp;", " "}, {"&apos;", "'"},
    {"&#39;", "'"},  {"&#x27;", "'"}, {"&#34;", "\""},  {"&#62;", ">"},  {"&#60;", "<"},
    {"&#160;", " "}, {"&#x3D;", "="}, {"&#x2F;", "/"},  {"&#61;", "="},  {"&amp;", "&"}};
// Decodes HTML. A text with <pre> or <br> has tags, which are removed; in any other text "<" is
// itself, as in the threads' names <idle> and <...>.
std::string from_html(std::string_view text) {
  constexpr std::size_t kLongestTag = 512;
  const bool has_tags = text.find("<pre") != text.npos || text.find("<br") != text.npos;
  std::string out;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of("<&"), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    const std::size_t tag = text.substr(0, kLongestTag).find('>') + 1;
    const auto* found = std::ranges::find_if(
        kEntities, [text](const Replacement& one) { return text.starts_with(one.text); });
    if (found != std::end(kEntities)) {
      out += found->with;
      text.remove_prefix(found->text.size());
    } else if (has_tags && text.starts_with('<') && tag != 0) {
      const bool ends_line = text.starts_with("<br") || text.starts_with("</p>");
      if (ends_line && !text.substr(tag).starts_with('\n')) out += '\n';
      text.remove_prefix(tag);
    } else {
      out += text.substr(0, 1);
      text.remove_prefix(std::min<std::size_t>(1, text.size()));
    }
  }
  return out;
}

// Removes the colour codes of a terminal and replaces no-break spaces by blanks.
std::string without_colours(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\x1b[")) {
      i = std::min(text.find_first_not_of("0123456789;", i + 2), text.size());
    } else if (text.substr(i).starts_with("\xc2\xa0")) {
      out += ' ';
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

Encoding encoding_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b\x08") && head.size() > 18 && (head[3] & 0xe0) == 0)
    return Encoding::kGzip;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Encoding::kZstd;
  if (is_utf16(head)) return Encoding::kUtf16;
  if (head.find('\0') != head.npos) return Encoding::kNone;
  std::string_view rest = head;
  bool is_mail = bare_transfer(head) != Transfer::kPlain;
  while (!is_mail && !rest.empty()) {
    const auto transfer = transfer_of(take_line(rest));
    is_mail = transfer && *transfer != Transfer::kPlain;
  }
  const auto has = [head](std::string_view word) { return head.find(word) != head.npos; };
  if (is_mail) return Encoding::kMail;
  if (has("&lt;") || has("&gt;") || has("&nbsp;") || has("&quot;") || has("<br") || has("<pre"))
    return Encoding::kHtml;
  return has("\x1b[") || has("\xc2\xa0") ? Encoding::kColours : Encoding::kNone;
}

Result<void> decode_text(const std::string& path, Encoding encoding, int file, int copy) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  if (static_cast<std::uint64_t>(status.st_size) > kMostText)
    return fail(ErrorKind::kUsage,
                "{}: a text of more than {} MiB that is encoded (a mail, HTML, UTF-16); give the "
                "trace alone, as plain text",
                path, kMostText >> 20);
  const std::string text = read_at(file, 0, static_cast<std::size_t>(status.st_size));
  return write_all(copy,
                   encoding == Encoding::kUtf16  ? from_utf16(text)
                   : encoding == Encoding::kMail ? from_mail(text)
                   : encoding == Encoding::kHtml ? from_html(text)
                                                 : without_colours(text),
                   path + ": its temporary copy");
}

}  // namespace

Result<UniqueFd> decoded_copy(const std::string& path, int file) {
  // Limit for encodings inside one another, such as HTML in a mail in a gzip file.
  constexpr int kMostLayers = 4;
  UniqueFd copy;
  for (int layer = 0; layer < kMostLayers; ++layer) {
    const int from = copy ? copy.get() : file;
    // The first 4 KiB show how a binary file (with zero bytes) is encoded; only a text needs more.
    std::string head = read_at(from, 0, kFirst);
    if (head.find('\0') == head.npos) head = read_at(from, 0, kHead);
    const Encoding encoding = encoding_of(head);
    if (encoding == Encoding::kNone) break;
    UniqueFd to = make_temporary_file();
    if (!to)
      return fail("{}: cannot be decoded to a temporary file in {} (TMPDIR): {}", path,
                  temporary_folder(), std::strerror(errno));
    auto done = encoding == Encoding::kGzip   ? unpack<Inflating>(path, "gzip", from, to.get())
                : encoding == Encoding::kZstd ? unpack<Unzstd>(path, "zstd", from, to.get())
                                              : decode_text(path, encoding, from, to.get());
    if (!done) return tl::unexpected(std::move(done).error());
    copy = std::move(to);
  }
  return copy;
}

}  // namespace trapline
