# Before GNUInstallDirs: libraries go where this system's compilers, pkg-config and CMake look first.
# On Debian that is lib/<architecture> under /usr/local as well as under /usr, so that the packages made
# from any build are the same.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Object code libraries")
endif()
# `git describe` of scripts/package and scripts/dist; a build of a checkout has the number alone.
set(TRAPLINE_VERSION ${PROJECT_VERSION} CACHE STRING "The version that programs and packages say")
