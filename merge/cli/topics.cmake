# Writes OUT, a C++ file with the texts of `trapline help TOPIC`, from TOPICS/*.md, and the examples of --help: the first
# three in each command's page in MAN.
#   cmake -D TOPICS=docs/topics -D MAN=docs/man -D OUT=topics.cc -P topics.cmake
set(entries "")
foreach(name exits exit-model clocks losses recording devices agent)
  file(READ ${TOPICS}/${name}.md text)
  # "# NAME: title" is the first line; the rest is the text as it is printed.
  string(REGEX MATCH "^# ([^\n]*)\n" line "${text}")
  set(title "${CMAKE_MATCH_1}")
  string(LENGTH "${line}" length)
  string(SUBSTRING "${text}" ${length} -1 body)
  string(REPLACE "`" "" body "${body}")
  string(APPEND entries "    {\"${name}\", \"${title}\",\n     R\"text(${title}\n${body})text\"},\n")
endforeach()
set(examples "")
file(GLOB pages ${MAN}/*.1)
foreach(page IN LISTS pages)
  file(READ ${page} text)
  string(REPLACE "\\-" "-" text "${text}")
  if(text MATCHES "\n\\.SH EXAMPLES\n\\.nf\n(trapline [^\n]*)\n([^\n]*)\n([^\n]*)\n")
    set(lines "R\"(${CMAKE_MATCH_1})\", R\"(${CMAKE_MATCH_2})\", R\"(${CMAKE_MATCH_3})\"")
    string(REGEX REPLACE "^.*/trapline-?(.*)\\.1$" "\\1" command ${page})
    string(APPEND examples "    {\"${command}\", ${lines}},\n")
  endif()
endforeach()
file(WRITE ${OUT} "// Written by topics.cmake from docs/topics and docs/man.
#include \"merge/cli/help.h\"

namespace trapline::cli {

std::span<const Topic> topics() {
  static constexpr Topic kTopics[] = {
${entries}  };
  return kTopics;
}

std::span<const std::string_view> examples_of(std::string_view command) {
  static constexpr std::string_view kExamples[][4] = {
${examples}  };
  for (const auto& row : kExamples)
    if (row[0] == command) return std::span(row).subspan(1);
  return {};
}

}  // namespace trapline::cli
")
