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

# Arrows, links and sizes: the table of docs/architecture.md.
python3 tests/system/architecture.py . || failed=1
python3 tests/system/event_names.py . || failed=1
python3 tests/system/table_keys.py . || failed=1
nothing_matches "a state machine does I/O" '#include <\(iostream\|fstream\|cstdio\)>' merge/analyze merge/clock
# The generator and trapline-stap are programs of their own.
nothing_matches "CLI11 outside cli and programs" '#include <CLI/' --exclude-dir=cli \
  --exclude=main.cc --exclude=stap_main.cc merge backend_ftrace plugin
# docs/architecture.md, "libtracefs": the marker's writer and the plugin do without, and one file calls it.
nothing_matches "libtracefs outside of the recorder" --include=CMakeLists.txt '<tracefs\.h>\|PkgConfig::tracefs\|(tracefs REQUIRED' \
  --exclude-dir=record CMakeLists.txt merge backend_ftrace plugin
nothing_matches "libtracefs outside of its class" '<tracefs\.h>' --exclude=ftrace_control.cc merge/record
# docs/security.md: what parses foreign bytes is in the worker alone. libtracefs brings libtraceevent into the
# process of trapline, which calls nothing of it, and of libtracefs nothing that does.
for program in merge/trapline plugin/libtrapline_plugin.so; do
  if readelf -d "$TRAPLINE_BINARY_DIR/$program" | grep -E 'NEEDED.*lib(traceevent|tracecmd|elf|dw)\.'; then
    printf 'FAILED: %s is linked with a library that belongs into trapline-worker\n' "$program"
    failed=1
  fi
  if nm -D --undefined-only "$TRAPLINE_BINARY_DIR/$program" |
    grep -E ' (tep_|kbuffer_|tracefs_(local_events|fill_local|load_cmdlines|iterate|follow|cpu_open|filter|event_filter|hist|synth|sql|dynevent))'; then
    printf 'FAILED: %s calls what parses formats or pages, which belongs into trapline-worker\n' "$program"
    failed=1
  fi
done
if ldd "$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so" | grep -E 'lib(traceevent|tracefs|tracecmd|elf|dw)\.'; then
  printf 'FAILED: the plugin brings a library that parses into QEMU\n'
  failed=1
fi
# What a program names as needed, and its dependents with it, it uses. lld (the preset check) names the loader, too.
if grep -q '^TRAPLINE_SANITIZE:STRING=$' "$TRAPLINE_BINARY_DIR/CMakeCache.txt" &&
  ! grep -q 'fuse-ld=lld' "$TRAPLINE_BINARY_DIR/CMakeCache.txt"; then
  for program in merge/trapline backend_ftrace/trapline-tracetool backend_ftrace/trapline-stap \
    backend_ftrace/libtrapline_ftrace.so plugin/libtrapline_plugin.so; do
    if unused=$(ldd -u "$TRAPLINE_BINARY_DIR/$program"); then continue; fi
    printf 'FAILED: %s is linked with what it does not use:\n%s\n' "$program" "$unused"
    failed=1
  done
fi
exit "$failed"
