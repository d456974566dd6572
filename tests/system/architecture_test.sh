#!/usr/bin/env bash
# Dependencies point one way: docs/architecture.md, "Folders".
set -euo pipefail
cd "$TRAPLINE_SOURCE_DIR"
failed=0

# nothing_matches WHAT GREP-ARGUMENT...
nothing_matches() {
  local what=$1 found
  shift
  found=$(grep -rn --include='*.h' --include='*.hpp' --include='*.cc' --include='*.c' "$@" || true)
  if [ -n "$found" ]; then
    printf 'FAILED: %s:\n%s\n' "$what" "$found"
    failed=1
  fi
}

nothing_matches "base includes more than base" '#include "\(merge\|plugin\|tests\|backend_ftrace/[^b]\)' \
  backend_ftrace/base
nothing_matches "backend_ftrace includes merge or plugin" '#include "\(merge\|plugin\|tests\)/' \
  backend_ftrace
nothing_matches "plugin includes merge" '#include "\(merge\|tests\)/' plugin
nothing_matches "the recorded format knows QEMU or glib" '#include \(<glib\|"plugin/[^f]\)' plugin/format
nothing_matches "merge includes the plugin beyond its format" '#include "plugin/[^f]' merge
nothing_matches "a product includes tests" '#include "tests/' merge
nothing_matches "a correlator does I/O" '#include \(<\(iostream\|fstream\|cstdio\)>\|"merge/\(source/[^t]\|report\|cli\|record\)\)' \
  merge/correlate
# The generator and trapline-stap are programs of their own.
nothing_matches "CLI11 outside cli and programs" '#include <CLI/' --exclude-dir=cli \
  --exclude=main.cc --exclude=stap_main.cc merge backend_ftrace plugin
# docs/architecture.md, "Why libtracefs is not linked".
nothing_matches "libtracefs outside tests" --include=CMakeLists.txt 'tracefs\.h>\|PkgConfig::tracefs\|(tracefs REQUIRED' \
  CMakeLists.txt merge backend_ftrace plugin
# What a program names as needed, and its dependents with it, it uses.
if grep -q '^TRAPLINE_SANITIZE:STRING=$' "$TRAPLINE_BINARY_DIR/CMakeCache.txt"; then
  for program in merge/trapline backend_ftrace/trapline-tracetool backend_ftrace/trapline-stap \
    backend_ftrace/libtrapline_ftrace.so plugin/libtrapline_plugin.so; do
    if unused=$(ldd -u "$TRAPLINE_BINARY_DIR/$program"); then continue; fi
    printf 'FAILED: %s is linked with what it does not use:\n%s\n' "$program" "$unused"
    failed=1
  done
fi
exit "$failed"
