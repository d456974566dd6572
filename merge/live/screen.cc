#include "merge/live/screen.h"

#define NCURSES_NOMACROS 1  // ncurses has macros named std::move and others
#include <curses.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>

namespace trapline::live {
namespace {

// Colours of guest, kernel, user, preempted, blocked, halted: those of reports, in the terminal's
// 256 colours and in its first 8. The letters of the bars show the same without colours.
constexpr short kRich[] = {36, 25, 172, 166, 175, 250};
constexpr short kPoor[] = {COLOR_GREEN, COLOR_BLUE,    COLOR_YELLOW,
                           COLOR_RED,   COLOR_MAGENTA, COLOR_WHITE};
constexpr short kWarningPair = 7;

bool start_colours() {
  if (!::has_colors()) return false;
  ::start_color();
  ::use_default_colors();
  const bool rich = COLORS >= 256;
  for (short i = 0; i < std::ssize(kRich); ++i) {
    const short ground = rich ? kRich[i] : kPoor[i];
    const short ink = rich && i == 1 ? COLOR_WHITE : COLOR_BLACK;
    ::init_pair(static_cast<short>(i + 1), ink, ground);
  }
  ::init_pair(kWarningPair, rich ? 172 : COLOR_YELLOW, -1);
  return true;
}

}  // namespace

Result<void> Screen::can_open() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return fail(ErrorKind::kUsage, "top: {} is not a terminal; in a pipe use: trapline top --batch",
                ::isatty(STDIN_FILENO) == 0 ? "stdin" : "stdout");
  }
  return {};
}

Result<std::unique_ptr<Screen>> Screen::open(bool colours) {
  if (auto can = can_open(); !can) return tl::unexpected(std::move(can).error());
  std::setlocale(LC_CTYPE, "");
  const char* const terminal = std::getenv("TERM");
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    return fail(
        ErrorKind::kUsage,
        "TERM={}: not a terminal that ncurses knows; set TERM, or use: trapline top --batch",
        terminal == nullptr ? "" : terminal);
  }
  ::noecho();
  ::cbreak();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(50);
  ::curs_set(0);
  return std::unique_ptr<Screen>(new Screen(colours && start_colours()));
}

Screen::~Screen() { ::endwin(); }

std::size_t Screen::width() const { return static_cast<std::size_t>(std::max(COLS, 1)); }
std::size_t Screen::height() const { return static_cast<std::size_t>(std::max(LINES, 1)); }

unsigned Screen::attributes(Look look) const {
  switch (look) {
    case Look::kPlain:
      return A_NORMAL;
    case Look::kTitle:
      return A_BOLD;
    case Look::kDim:
      return A_DIM;
    case Look::kSelected:
      return A_REVERSE;
    case Look::kWarning:
      return colours_ ? A_BOLD | static_cast<unsigned>(COLOR_PAIR(kWarningPair)) : A_BOLD;
    default:
      break;
  }
  if (!colours_) return A_NORMAL;
  const int part = static_cast<int>(look) - static_cast<int>(Look::kGuest);
  return static_cast<unsigned>(COLOR_PAIR(part + 1));
}

void Screen::draw(const std::vector<Line>& lines) {
  ::erase();
  for (std::size_t y = 0; y < lines.size() && y < height(); ++y) {
    ::move(static_cast<int>(y), 0);
    for (const StyledText& piece : lines[y]) {
      ::attrset(static_cast<int>(attributes(piece.look)));
      const int left = COLS - getcurx(stdscr);
      if (getcury(stdscr) != static_cast<int>(y) || left <= 0) break;
      // By characters, so that a line never continues in the next one.
      wchar_t wide[512];
      const std::size_t got = std::mbstowcs(wide, piece.text.c_str(), 511);
      if (got == static_cast<std::size_t>(-1)) {
        ::addnstr(piece.text.c_str(), left);
      } else {
        ::addnwstr(wide, std::min(static_cast<int>(got), left));
      }
    }
  }
  ::attrset(A_NORMAL);
  ::refresh();
}

int Screen::key() {
  const int key = ::getch();
  switch (key) {
    case ERR:
      return -1;
    case KEY_RESIZE:
      return 0;
    case KEY_UP:
      return kUp;
    case KEY_DOWN:
      return kDown;
    case KEY_LEFT:
      return kLeft;
    case KEY_RIGHT:
      return kRight;
    case KEY_ENTER:
    case '\r':
    case '\n':
      return kEnter;
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return kBack;
    case '\t':
      return kTab;
    case 27:
      return kEscape;
    default:
      return key < 256 ? key : 0;
  }
}

}  // namespace trapline::live
