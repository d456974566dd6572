# What is installed, by component; a component is a package (docs/install.md). Included by the top-level
# CMakeLists.txt. The rules of libtrapline_ftrace are in backend_ftrace/CMakeLists.txt, so that it can be
# installed alone.
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc)
set(man_dir ${PROJECT_SOURCE_DIR}/docs/man)

# trapline: the command
install(TARGETS trapline trapline_sync RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT trapline)
install(DIRECTORY ${man_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT trapline
  FILES_MATCHING PATTERN "trapline*.1"
  PATTERN "trapline-tracetool.1" EXCLUDE PATTERN "trapline-stap.1" EXCLUDE
  PATTERN "trapline-demo.1" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/skill DESTINATION ${CMAKE_INSTALL_DATADIR}/trapline COMPONENT trapline)
# Completions, from the option tables that the command prints; a cross-built command needs an emulator for that.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(completions ${PROJECT_BINARY_DIR}/completions)
  set(completion_files ${completions}/trapline.bash ${completions}/_trapline ${completions}/trapline.fish)
  add_custom_command(OUTPUT ${completion_files}
    COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0
      ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/completions.py ${completions}
      ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:trapline>
    DEPENDS trapline ${CMAKE_CURRENT_LIST_DIR}/completions.py ${CMAKE_CURRENT_LIST_DIR}/completion.bash.in
    COMMENT "Writing the completions" VERBATIM)
  add_custom_target(trapline_completions ALL DEPENDS ${completion_files})
  set(zsh_dir share/zsh/site-functions)
  if(EXISTS /etc/debian_version AND CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(zsh_dir share/zsh/vendor-completions)
  endif()
  install(FILES ${completions}/trapline.bash RENAME trapline
    DESTINATION share/bash-completion/completions COMPONENT trapline)
  install(FILES ${completions}/_trapline DESTINATION ${zsh_dir} COMPONENT trapline)
  install(FILES ${completions}/trapline.fish DESTINATION share/fish/vendor_completions.d COMPONENT trapline)
endif()

# trapline-worker: the process that the command and the plugin start to parse foreign bytes
install(TARGETS trapline_worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/trapline COMPONENT worker)

# trapline-qemu-plugin
install(TARGETS trapline_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/trapline COMPONENT plugin)
install(FILES ${man_dir}/trapline-plugin.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT plugin)

# python3-trapline: where Debian's python3 looks, or that of this system
set(python_dir lib/python3/dist-packages)
if(NOT EXISTS /etc/debian_version)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(python_dir lib/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/site-packages)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/merge/python/trapline DESTINATION ${python_dir} COMPONENT python
  PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/examples/python/ DESTINATION ${doc_dir}/python3-trapline/examples COMPONENT python)

# trapline-demo: the KVM host in a box, and the guests that it runs
include(${CMAKE_CURRENT_LIST_DIR}/install_demo.cmake)

# libtrapline-ftrace-dev: beside what backend_ftrace installs
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/examples
  DESTINATION ${doc_dir}/libtrapline-ftrace-dev COMPONENT dev PATTERN "fleet" EXCLUDE PATTERN "python" EXCLUDE)

# trapline-doc: laid out as in the tree, with the recordings, so that the links and examples of the documents hold
set(trapline_doc_dir ${doc_dir}/trapline-doc)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${trapline_doc_dir} COMPONENT doc
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "man" EXCLUDE PATTERN "examples" EXCLUDE PATTERN "skill" EXCLUDE)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${trapline_doc_dir} COMPONENT doc)
install(CODE "set(source ${PROJECT_SOURCE_DIR})
set(destination \${CMAKE_INSTALL_PREFIX}/${trapline_doc_dir})
include(${CMAKE_CURRENT_LIST_DIR}/install_recordings.cmake)" COMPONENT doc)

include(${CMAKE_CURRENT_LIST_DIR}/cpack.cmake)
