# trapline_trace_events(TARGET target EVENTS file... [BACKENDS name...] [GROUP name]
#                       [PROVIDER name] [EVENTS_ALL path])
#
# Generates the code of the events that the trace-events files declare and adds it to the target;
# its sources then #include "trace-GROUP.h" and call trace_NAME(). BACKENDS is any of nop, log,
# simple, ftrace, syslog, ust and dtrace (default: ftrace); GROUP defaults to the target's name;
# PROVIDER names the UST provider and the SDT probes; EVENTS_ALL also writes the merged file that
# readers of the trace need. With dtrace the tapsets GROUP.stp and GROUP-log.stp are made as well.
function(trapline_trace_events)
  cmake_parse_arguments(arg "" "TARGET;GROUP;PROVIDER;EVENTS_ALL" "EVENTS;BACKENDS" ${ARGN})
  if(NOT arg_TARGET OR NOT arg_EVENTS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "trapline_trace_events(TARGET target EVENTS file... [BACKENDS name...] "
                        "[GROUP name] [PROVIDER name] [EVENTS_ALL path])")
  endif()
  if(NOT arg_BACKENDS)
    set(arg_BACKENDS ftrace)
  endif()
  if(NOT arg_GROUP)
    set(arg_GROUP ${arg_TARGET})
  endif()
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" group "${arg_GROUP}")
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/trapline-trace/${arg_TARGET})
  file(MAKE_DIRECTORY ${directory})
  set(files)
  foreach(file IN LISTS arg_EVENTS)
    get_filename_component(file ${file} ABSOLUTE)
    list(APPEND files ${file})
  endforeach()
  list(JOIN arg_BACKENDS "," backends)
  set(options --group ${group} --backends ${backends} --output-dir ${directory}
      --binary ${CMAKE_INSTALL_PREFIX}/bin/${arg_TARGET} --probe-prefix ${arg_TARGET})
  if(arg_PROVIDER)
    list(APPEND options --provider ${arg_PROVIDER})
  endif()
  set(sources ${directory}/trace-${group}.c)
  set(others ${directory}/trace-${group}.h)
  if("ust" IN_LIST arg_BACKENDS)
    list(APPEND sources ${directory}/trace-ust-${group}.c)
    list(APPEND others ${directory}/trace-ust-${group}.h)
    target_link_libraries(${arg_TARGET} PRIVATE lttng-ust)
  endif()
  if("dtrace" IN_LIST arg_BACKENDS)
    list(APPEND others ${directory}/${group}.stp ${directory}/${group}-log.stp)
  endif()
  if(arg_EVENTS_ALL)
    list(APPEND options --events-all ${arg_EVENTS_ALL})
    list(APPEND others ${arg_EVENTS_ALL})
  endif()
  # Files that did not change keep their time, hence the stamp.
  add_custom_command(
    OUTPUT ${directory}/${group}.stamp
    BYPRODUCTS ${sources} ${others}
    COMMAND trapline::tracetool ${options} ${files}
    COMMAND ${CMAKE_COMMAND} -E touch ${directory}/${group}.stamp
    DEPENDS trapline::tracetool ${files}
    COMMENT "Generating the trace events of ${arg_TARGET}"
    VERBATIM)
  set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS ${directory}/${group}.stamp
    SKIP_UNITY_BUILD_INCLUSION ON)  # the same headers are included in several ways
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "C" IN_LIST languages)
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
  endif()
  target_sources(${arg_TARGET} PRIVATE ${directory}/${group}.stamp ${sources} ${others})
  target_include_directories(${arg_TARGET} PRIVATE ${directory})
  target_link_libraries(${arg_TARGET} PRIVATE trapline::ftrace)
endfunction()
