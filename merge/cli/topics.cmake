# Writes OUT, a C++ file with the texts of `trapline help TOPIC`, from docs/topics/*.md.
#   cmake -D FOLDER=docs/topics -D OUT=topics.cc -P topics.cmake
set(entries "")
foreach(name exits exit-model clocks losses recording devices agent)
  file(READ ${FOLDER}/${name}.md text)
  # "# NAME: title" is the first line; the rest is the text as it is printed.
  string(REGEX MATCH "^# ([^\n]*)\n" line "${text}")
  set(title "${CMAKE_MATCH_1}")
  string(LENGTH "${line}" length)
  string(SUBSTRING "${text}" ${length} -1 body)
  string(REPLACE "`" "" body "${body}")
  string(APPEND entries "    {\"${name}\", \"${title}\",\n     R\"text(${title}\n${body})text\"},\n")
endforeach()
file(WRITE ${OUT} "// Written by topics.cmake from docs/topics.
#include \"merge/cli/help.h\"

namespace trapline::cli {

std::span<const Topic> topics() {
  static constexpr Topic kTopics[] = {
${entries}  };
  return kTopics;
}

}  // namespace trapline::cli
")
