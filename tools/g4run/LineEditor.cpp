#include "tools/g4run/LineEditor.h"
#include "runtime/text/Utf8.h"
#include "tools/g4run/EditBuffer.h"
#include "tools/g4run/History.h"
#include "tools/g4run/Interrupt.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstring>
#include <iostream>
#include <langinfo.h>
#include <optional>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace g4::tool {
namespace {

// Signal handlers reach nothing but globals.
volatile std::sig_atomic_t resized = 0;
termios modeToLeave{};

// Control sequences of terminals (ECMA-48, xterm).
constexpr char kPasteOn[] = "\x1b[?2004h", kPasteOff[] = "\x1b[?2004l", kEraseBelow[] = "\x1b[J",
               kClear[] = "\x1b[H\x1b[2J";
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr int kSignalMs =
    100;                   // a signal that came just before a wait, or to another thread, is seen after this
constexpr int kDrawMs = 8; // between two drawings, however fast keys come
constexpr int kEscapeMs = 50; // after this an escape is a key, not the start of a sequence

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR)
      return; // a terminal that is gone: reading will tell
    text.remove_prefix(size_t(std::max<ssize_t>(written, 0)));
  }
}

std::string up(size_t rows) { return rows ? "\x1b[" + std::to_string(rows) + "A" : ""; }
std::string right(size_t columns) { return columns ? "\x1b[" + std::to_string(columns) + "C" : ""; }

struct Size {
  size_t width, height;
};
Size terminalSize() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {80, 24};
  return {size.ws_col, size.ws_row};
}

/// SIGTERM's end, with a terminal for others: its mode, and what they write on a line of its own.
void endTidily(int signal) {
  (void)!::write(STDOUT_FILENO, kPasteOff, sizeof kPasteOff - 1);
  (void)!::write(STDOUT_FILENO, "\r\n", 2);
  tcsetattr(STDIN_FILENO, TCSANOW, &modeToLeave);
  std::raise(signal); // its default action, after this
}

} // namespace

struct LineEditor::Impl {
  explicit Impl(std::string historyFile) : history(std::move(historyFile)) {}

  Read readEdited(std::string &line);
  void enterRaw();
  void leaveRaw();

  /// The next byte; none after `timeoutMs` (-1: never), at the end of input, or after Ctrl-C.
  std::optional<char> nextByte(int timeoutMs = -1);
  std::optional<Read> handle(char byte);
  void handleEscape();
  void insertPaste();
  void insertCharacter(char first);
  void recall(const std::string *line);

  void draw();
  void afterResize();

  bool terminal = false, raw = false;
  termios before{}; ///< the mode to leave the terminal in
  History history;
  std::string prompt, style, off;
  EditBuffer buffer;
  std::string input; ///< read, not handled yet
  bool ended = false;

  // What is on the screen.
  bool stale = true;
  std::chrono::steady_clock::time_point drawn{};
  std::vector<size_t> shown; ///< columns of each row
  EditBuffer::Place cursor{};
};

LineEditor::LineEditor(std::string historyFile) : impl_(std::make_unique<Impl>(std::move(historyFile))) {
  impl_->terminal =
      isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &impl_->before) == 0;
  if (!impl_->terminal)
    return;
  // For the width of characters.
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
  struct sigaction action {};
  action.sa_handler = [](int) { resized = 1; };
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, nullptr);
  modeToLeave = impl_->before;
  action.sa_handler = endTidily;
  action.sa_flags = int(SA_RESETHAND);
  sigaction(SIGTERM, &action, nullptr);
}

LineEditor::~LineEditor() { impl_->leaveRaw(); }

bool LineEditor::interactive() const { return impl_->terminal; }

LineEditor::Read LineEditor::read(const std::string &prompt, const std::string &style, const std::string &off,
                                  std::string &line) {
  line.clear();
  if (interactive()) {
    impl_->prompt = prompt;
    impl_->style = style;
    impl_->off = off;
    return impl_->readEdited(line);
  }
  if (std::getline(std::cin, line))
    return Read::kLine;
  return interrupted() ? Read::kInterrupted : Read::kEnd;
}

// The kernel has dropped what it held when Ctrl-C came; here is what was read before.
void LineEditor::dropTypedAhead() { impl_->input.clear(); }

/// Keys come as they are pressed, pastes marked; Ctrl-C stays a signal.
void LineEditor::Impl::enterRaw() {
  termios mode = before;
  mode.c_iflag &= ~tcflag_t(ICRNL | INLCR | IXON);
  mode.c_lflag &= ~tcflag_t(ICANON | ECHO | IEXTEN);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
  put(kPasteOn);
  raw = true;
}

void LineEditor::Impl::leaveRaw() {
  if (!raw)
    return;
  put(kPasteOff);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

LineEditor::Read LineEditor::Impl::readEdited(std::string &line) {
  std::fflush(stdout);
  enterRaw();
  buffer.set("");
  history.rewind();
  stale = true;
  ended = false;
  shown.clear();
  cursor = {};
  std::optional<Read> result;
  while (!result) {
    const std::optional<char> byte = nextByte();
    if (byte)
      result = handle(*byte);
    else
      result = interrupted() ? Read::kInterrupted : Read::kEnd;
    stale = true; // only now: what waits for the rest of a key or a paste may have drawn
  }
  buffer.end();
  draw();
  put("\r\n");
  line = buffer.utf8();
  if (*result == Read::kLine)
    history.add(line);
  return *result;
}

/// Draws only when there is nothing to read: much input at once is drawn once.
std::optional<char> LineEditor::Impl::nextByte(int timeoutMs) {
  while (input.empty()) {
    if (resized) {
      resized = 0;
      afterResize();
    }
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (stale) {
      using namespace std::chrono;
      const auto since = duration_cast<milliseconds>(steady_clock::now() - drawn).count();
      if (poll(&in, 1, int(std::max<int64_t>(kDrawMs - since, 0))) == 0)
        draw();
    }
    const int ready = poll(&in, 1, timeoutMs < 0 ? kSignalMs : timeoutMs);
    if (interrupted() || (ready == 0 && timeoutMs >= 0))
      return std::nullopt;
    if (ready == 0)
      continue;
    if (ready < 0) {
      enterRaw(); // back from having been stopped, maybe
      stale = true;
      continue;
    }
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      ended = true;
      return std::nullopt;
    }
    input.assign(bytes, size_t(got));
    std::reverse(input.begin(), input.end()); // taken from the back
  }
  const char byte = input.back();
  input.pop_back();
  return byte;
}

std::optional<LineEditor::Read> LineEditor::Impl::handle(char byte) {
  constexpr auto ctrl = [](char key) { return char(key & 0x1f); };
  switch (byte) {
  case '\r':
  case '\n': // Enter, pressed before the terminal was in our mode
    return Read::kLine;
  case ctrl('D'):
    if (buffer.text().empty())
      return Read::kEnd;
    buffer.eraseAfter();
    break;
  case 0x7f:
  case ctrl('H'):
    buffer.eraseBefore();
    break;
  case ctrl('A'):
    buffer.home();
    break;
  case ctrl('E'):
    buffer.end();
    break;
  case ctrl('B'):
    buffer.left();
    break;
  case ctrl('F'):
    buffer.right();
    break;
  case ctrl('K'):
    buffer.eraseToEnd();
    break;
  case ctrl('U'):
    buffer.eraseToStart();
    break;
  case ctrl('W'):
    buffer.eraseWordBefore();
    break;
  case ctrl('P'):
    recall(history.older(buffer.utf8()));
    break;
  case ctrl('N'):
    recall(history.newer());
    break;
  case ctrl('L'):
    put(kClear);
    shown.clear();
    cursor = {};
    break;
  case '\x1b':
    handleEscape();
    break;
  default:
    insertCharacter(byte);
  }
  return std::nullopt;
}

void LineEditor::Impl::recall(const std::string *line) {
  if (line)
    buffer.set(*line);
}

/// One character that is text: a tab is, other control characters are not.
void LineEditor::Impl::insertCharacter(char first) {
  std::string bytes(1, first);
  while (text::readUtf8(bytes).open) {
    const auto byte = nextByte(kEscapeMs);
    if (!byte)
      break;
    bytes += *byte;
  }
  if (uint8_t(first) >= 0x20 || first == '\t')
    buffer.insert(fromUtf8(bytes));
}

void LineEditor::Impl::handleEscape() {
  const auto first = nextByte(kEscapeMs);
  if (!first)
    return; // the key Escape
  std::string sequence(1, *first);
  if (*first == '[' || *first == 'O')
    for (bool more = true; more;) { // parameters, then a final byte
      const auto byte = nextByte(kEscapeMs);
      if (!byte)
        return;
      sequence += *byte;
      more = *byte < 0x40;
    }
  using Edit = void (EditBuffer::*)();
  static constexpr struct {
    std::string_view sequence;
    Edit edit;
  } kKeys[] = {{"[D", &EditBuffer::left},         {"OD", &EditBuffer::left},
               {"[C", &EditBuffer::right},        {"OC", &EditBuffer::right},
               {"[H", &EditBuffer::home},         {"OH", &EditBuffer::home},
               {"[1~", &EditBuffer::home},        {"[7~", &EditBuffer::home},
               {"[F", &EditBuffer::end},          {"OF", &EditBuffer::end},
               {"[4~", &EditBuffer::end},         {"[8~", &EditBuffer::end},
               {"[3~", &EditBuffer::eraseAfter},  {"[1;5D", &EditBuffer::wordLeft},
               {"[1;3D", &EditBuffer::wordLeft},  {"b", &EditBuffer::wordLeft},
               {"[1;5C", &EditBuffer::wordRight}, {"[1;3C", &EditBuffer::wordRight},
               {"f", &EditBuffer::wordRight},     {"\x7f", &EditBuffer::eraseWordBefore}};
  for (const auto &key : kKeys)
    if (sequence == key.sequence)
      return (buffer.*key.edit)();
  if (sequence == "\r" || sequence == "\n")
    buffer.insert(U"\n");
  else if (sequence == "[A" || sequence == "OA")
    recall(history.older(buffer.utf8()));
  else if (sequence == "[B" || sequence == "OB")
    recall(history.newer());
  else if (sequence == "[200~")
    insertPaste();
}

/// Up to the mark that ends a paste, whatever keys its bytes would be.
void LineEditor::Impl::insertPaste() {
  std::string bytes;
  while (!bytes.ends_with(kPasteEnd)) {
    const auto byte = nextByte();
    if (!byte)
      return;
    bytes += *byte == '\r' ? '\n' : *byte;
  }
  bytes.resize(bytes.size() - kPasteEnd.size());
  while (bytes.ends_with('\n'))
    bytes.pop_back(); // a line copied whole; Enter sends it
  std::u32string text = fromUtf8(bytes);
  std::erase_if(text, [](char32_t c) { return (c < 0x20 && c != U'\n' && c != U'\t') || c == 0x7f; });
  buffer.insert(text);
}

/// From wherever the cursor is: back to the first row, erase, write the rows that fit, put the cursor in its
/// place.
void LineEditor::Impl::draw() {
  const Size size = terminalSize();
  const size_t width = std::max(size.width, prompt.size() + 4);
  const EditBuffer::Layout layout = buffer.layout(width, prompt.size());
  // Of a text taller than the screen, the part with the cursor.
  size_t first = 0, count = layout.rows.size();
  if (count > size.height) {
    first = std::min(layout.cursor.row - std::min(layout.cursor.row, size.height / 2), count - size.height);
    count = size.height;
  }
  std::string out = "\r" + up(cursor.row) + kEraseBelow;
  shown.clear();
  for (size_t i = first; i < first + count; ++i) {
    if (i > first)
      out += "\r\n";
    if (i == 0)
      out += style + prompt + off;
    out += layout.rows[i];
    size_t columns = i == 0 ? prompt.size() : 0;
    for (char32_t c : fromUtf8(layout.rows[i]))
      columns += columnsOf(c);
    shown.push_back(columns);
  }
  cursor = {layout.cursor.row - first, layout.cursor.column};
  out += "\r" + up(count - 1 - cursor.row) + right(cursor.column);
  put(out);
  stale = false;
  drawn = std::chrono::steady_clock::now();
}

/// Terminals wrap rows that no longer fit: then the first row is further up.
void LineEditor::Impl::afterResize() {
  const Size size = terminalSize();
  size_t above = cursor.column / size.width;
  for (size_t row = 0; row < cursor.row && row < shown.size(); ++row)
    above += std::max<size_t>(1, (shown[row] + size.width - 1) / size.width);
  cursor.row = std::min(above, size.height - 1);
  stale = true;
}

} // namespace g4::tool
