# Run by CPack when everything is installed below its folder and nothing is packed yet: what Debian's
# policy asks of a package beyond the files themselves.
set(packages trapline:trapline worker:trapline-worker runtime:libtrapline-ftrace0 dev:libtrapline-ftrace-dev
  plugin:trapline-qemu-plugin python:python3-trapline doc:trapline-doc demo:trapline-demo)
file(GLOB roots LIST_DIRECTORIES true ${CPACK_TEMPORARY_DIRECTORY}/*/usr)
if(NOT roots)
  message(FATAL_ERROR "${CPACK_TEMPORARY_DIRECTORY}/COMPONENT/usr is missing: has CPack another layout?")
endif()

# The time of the commit, where scripts/package set it.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog "trapline (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * The project's own packages; CHANGELOG.md in trapline-doc has the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}")
  endif()
endfunction()

set(objcopy objcopy)
if(CPACK_OBJCOPY_EXECUTABLE)
  set(objcopy ${CPACK_OBJCOPY_EXECUTABLE})  # of the architecture that is packed
endif()
foreach(pair IN LISTS packages)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  if(NOT IS_DIRECTORY ${root})
    continue()  # not asked for
  endif()
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${root}/share/doc/${package}
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(WRITE ${root}/share/doc/${package}/changelog "${changelog}")
  run(gzip -9nf ${root}/share/doc/${package}/changelog)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides)
    file(MAKE_DIRECTORY ${root}/share/lintian/overrides)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides
      ${root}/share/lintian/overrides/${package} COPYONLY)
  endif()
  file(GLOB_RECURSE pages ${root}/share/man/*.[1-8])
  foreach(page IN LISTS pages)
    run(gzip -9nf ${page})
  endforeach()
  # Debug information of the members is of no use to who links them.
  file(GLOB_RECURSE archives ${root}/*.a)
  foreach(archive IN LISTS archives)
    run(${objcopy} --enable-deterministic-archives --strip-debug ${archive})
  endforeach()
  # The umask of whoever builds is nobody else's business; nor is the time at which a folder was made.
  run(chmod -R "u=rwX,go=rX" ${root})
  run(sh -c "find '${CPACK_TEMPORARY_DIRECTORY}/${component}' -exec touch --no-dereference --date=@\${SOURCE_DATE_EPOCH:-$(date +%s)} {} +")
endforeach()
