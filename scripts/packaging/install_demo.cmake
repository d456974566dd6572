# The demo: scripts of this tree as they are, and its guests. scripts/demo sees that it is installed by the
# missing CMakeLists.txt. The guests are built for x86-64 by the host's own compiler.
set(guest_dir ${PROJECT_SOURCE_DIR}/tests/guest)
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64" OR NOT EXISTS ${guest_dir}/CMakeLists.txt OR TRAPLINE_SANITIZE)
  return()
endif()
if(NOT TARGET demo_guest)
  add_subdirectory(${guest_dir} ${PROJECT_BINARY_DIR}/tests/guest EXCLUDE_FROM_ALL)
endif()
set(scripts ${PROJECT_SOURCE_DIR}/scripts)
set(demo_dir ${CMAKE_INSTALL_DATADIR}/trapline)
set(images)
set(guests demo-guest)
find_program(TRAPLINE_CLANG clang)
find_program(TRAPLINE_LLD ld.lld)
if(TRAPLINE_CLANG AND TRAPLINE_LLD)
  list(APPEND guests demo-guest-arm64)
else()
  message(STATUS "The demo's arm64 guest is left out: it needs clang and lld (apt-get install clang lld)")
endif()
foreach(guest IN LISTS guests)
  string(REPLACE - _ target ${guest})
  # Not as ELF files: packaging tools would take their symbols out, and refuse another architecture's.
  set(image ${PROJECT_BINARY_DIR}/demo/${guest}.elf.gz)
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/demo
    COMMAND gzip -9nc ${PROJECT_BINARY_DIR}/tests/guest/${guest}.elf > ${image}
    DEPENDS ${target} ${PROJECT_BINARY_DIR}/tests/guest/${guest}.elf
    COMMENT "Compressing ${guest}.elf" VERBATIM)
  list(APPEND images ${image})
endforeach()
add_custom_target(trapline_demo_guests ALL DEPENDS ${images})
install(FILES ${images} DESTINATION ${demo_dir}/guests COMPONENT demo)
install(PROGRAMS ${guest_dir}/linux/init RENAME linux-init DESTINATION ${demo_dir}/guests COMPONENT demo)
install(PROGRAMS ${scripts}/demo ${scripts}/kvm-box ${scripts}/fetch DESTINATION ${demo_dir}/scripts COMPONENT demo)
foreach(file common.sh private_apt.sh unpack.sh recipes.sh box_bochs.sh boot_disk.py session_json.py)
  install(FILES ${scripts}/lib/${file} DESTINATION ${demo_dir}/scripts/lib COMPONENT demo)
endforeach()
install(PROGRAMS ${scripts}/box/init ${scripts}/box/record-demo ${scripts}/box/guest
  DESTINATION ${demo_dir}/scripts/box COMPONENT demo)
install(FILES ${scripts}/box/guests.sh ${scripts}/box/boot-sector.s DESTINATION ${demo_dir}/scripts/box COMPONENT demo)
file(CREATE_LINK ../${CMAKE_INSTALL_DATADIR}/trapline/scripts/demo ${PROJECT_BINARY_DIR}/trapline-demo SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/trapline-demo DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT demo)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/trapline-demo.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT demo)
