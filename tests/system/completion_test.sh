#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The completions in a real bash; zsh's and fish's are parsed where those shells are.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
files=$TRAPLINE_BINARY_DIR/completions
bash -n "$files/trapline.bash"
if command -v shellcheck >/dev/null; then shellcheck "$files/trapline.bash"; fi
if command -v zsh >/dev/null; then zsh -n "$files/_trapline"; fi
if command -v fish >/dev/null; then fish --no-execute "$files/trapline.fish"; fi
# Every option of every command.
for command in $("$TRAPLINE_BINARY_DIR/merge/trapline" --help | sed -n '/^Subcommands/,$s/^  \([a-z]*\) .*/\1/p'); do
  options=$("$TRAPLINE_BINARY_DIR/merge/trapline" "$command" --help | sed -n 's/^  [-a-z,]*\(--[a-z-]*\).*/\1/p')
  for option in $options; do
    for file in trapline.bash _trapline; do expect_contains "$files/$file" "$option"; done
    grep -q -- "from $command' .*-l ${option#--}\b" "$files/trapline.fish" || fail "fish: $command $option"
  done
done
python3 "$TRAPLINE_SOURCE_DIR/tests/system/completion.py" "$files/trapline.bash" "$TRAPLINE_BINARY_DIR/merge/trapline" \
  "$TRAPLINE_SOURCE_DIR/tests/data/svm-linux-2vcpu.dat"
