# Debian packages by CPack, one for each component. scripts/package calls it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trapline)
set(CPACK_PACKAGE_VENDOR "Trapline")
set(CPACK_PACKAGE_CONTACT "Trapline maintainers <maintainers@trapline.example>" CACHE STRING
  "Who made the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_VERSION ${TRAPLINE_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL trapline worker runtime dev plugin python doc)
if(TARGET trapline_demo_guests)
  list(APPEND CPACK_COMPONENTS_ALL demo)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/finish.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

# trapline_deb(COMPONENT PACKAGE SECTION SUMMARY TEXT): TEXT's paragraphs, its lines at most 79 wide.
function(trapline_deb component package section summary text)
  string(TOUPPER ${component} upper)
  foreach(pair "PACKAGE_NAME;${package}" "PACKAGE_SECTION;${section}" "FILE_NAME;DEB-DEFAULT")
    list(GET pair 0 key)
    list(GET pair 1 value)
    set(CPACK_DEBIAN_${upper}_${key} ${value} PARENT_SCOPE)
  endforeach()
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  # By component alone: CPack takes an OFF of a component for unset where the whole is ON.
  set(CPACK_DEBIAN_${upper}_DEBUGINFO_PACKAGE ON PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
endfunction()

trapline_deb(trapline trapline utils "latency of VM exits: kernel, QEMU and guest on one timeline"
"Records a KVM host with ftrace, QEMU's trace events and the functions of the
guest, puts them on one timeline, and reports where the time of VM exits goes:
how much of it the kernel took, how much QEMU, in which device, and which guest
function was waiting. Reads recordings of trace-cmd and uftrace as well.")
set(CPACK_DEBIAN_TRAPLINE_PACKAGE_DEPENDS "trapline-worker (= ${TRAPLINE_VERSION})")
set(CPACK_DEBIAN_TRAPLINE_PACKAGE_RECOMMENDS "trapline-qemu-plugin")
set(CPACK_DEBIAN_TRAPLINE_PACKAGE_SUGGESTS "trapline-demo, trapline-doc, trace-cmd, kernelshark, uftrace, qemu-system")

trapline_deb(worker trapline-worker utils "latency of VM exits - the process that parses files"
"Parses the event formats, symbols and debug information of files for trapline
and its QEMU plugin, which start it, in a process that can do nothing else.")

trapline_deb(runtime libtrapline-ftrace0 libs "events of a program in ftrace and other trace backends"
"Writes the events that QEMU trace-events files declare into the kernel's
trace_marker, a log, simpletrace files or the system log, switched on and off
while the program runs. Needs nothing but the C library.")
# CPack's own shlibs come with scripts that call ldconfig, where policy asks for a trigger. The version is
# that of the oldest library with all of the present functions.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/debian/shlibs ${CMAKE_CURRENT_LIST_DIR}/debian/triggers)

trapline_deb(dev libtrapline-ftrace-dev libdevel "events of a program in ftrace - development files"
"Headers, libraries, a pkg-config file, a CMake package, examples, and
trapline-tracetool, which generates C and C++ code from QEMU trace-events
files for the backends nop, log, simple, ftrace, syslog, ust and dtrace.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libtrapline-ftrace0 (= ${TRAPLINE_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, pkg-config, liblttng-ust-dev, systemtap-sdt-dev, trapline-doc")

trapline_deb(plugin trapline-qemu-plugin utils "QEMU plugin that records the calls of guest functions"
"A TCG plugin for QEMU 9.0 and later that records function entry and exit of
x86-64, aarch64 and riscv64 guests, with or without an operating system, in
uftrace's format or into ftrace's trace_marker.")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS "trapline-worker (= ${TRAPLINE_VERSION})")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_ENHANCES "qemu-system-x86, qemu-system-arm, qemu-system-misc")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SUGGESTS "trapline, uftrace")

trapline_deb(python python3-trapline python "latency of VM exits - Python module"
"Gives Python the exits, waits, calls and reports of a recording, as the command
trapline prints them, and runs scripts that were written for the module
simpletrace of QEMU.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), trapline (= ${TRAPLINE_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, trapline-doc")
# Python writes compiled modules beside the sources when root imports them: these scripts write and remove them.
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/debian/python/postinst ${CMAKE_CURRENT_LIST_DIR}/debian/python/prerm)

trapline_deb(doc trapline-doc doc "latency of VM exits - documentation"
"How to record, what the figures of a report mean, how clocks are related and
what the printed error bounds guarantee, the formats byte by byte, and the
recordings that the examples read.")
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOC_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DOC_DEBUGINFO_PACKAGE OFF)

trapline_deb(demo trapline-demo utils "latency of VM exits - demo without KVM hardware"
"Records a KVM guest on an emulated machine, the KVM host in a box, and reports
where the time of its exits went. The machine's kernel and QEMU are downloaded
from Debian when it is run for the first time. Needs neither virtualization in
the processor nor root.")
set(CPACK_DEBIAN_DEMO_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEMO_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEMO_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_DEMO_PACKAGE_DEPENDS "trapline, trapline-qemu-plugin, binutils, ca-certificates, cpio, debian-archive-keyring, python3, xz-utils")

include(CPack)
