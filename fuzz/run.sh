#!/usr/bin/env bash
# Runs each fuzz target for so many seconds, one after the other: fuzz/run.sh SECONDS [TARGET...]
#
# Begins with tests/corpus, the samples and the inputs of tests/cases, each behind the bytes that choose the
# options. What was found lies in fuzz/artifacts/TARGET; the exit status is 1 when there is something.
set -eu
cd "$(dirname "$0")"
# The nightly switches of cargo-fuzz on whatever compiler is there.
export RUSTC_BOOTSTRAP=1
seconds=$1
shift
[ $# -gt 0 ] || set -- source decode normalise
command -v cargo-fuzz >/dev/null || { echo "install cargo-fuzz first: cargo install cargo-fuzz" >&2; exit 1; }

found=0
for target in "$@"; do
  corpus=corpus/$target
  mkdir -p "$corpus" "artifacts/$target"
  cp -n ../tests/corpus/"$target"/* "$corpus" 2>/dev/null || true
  case $target in
    # One byte of options for a source, two for the others; the second column names the first phone column.
    source) options='\000 \001 \120' ;;
    *) options='\000\000 \002\001 \030\000' ;;
  esac
  find ../samples ../tests/cases -type f -size -64k ! -name '*.json' ! -name '*.md' | while read -r file; do
    for option in $options; do
      name=$(printf '%s%s' "$option" "$file" | sha1sum | cut -c1-16)
      { printf "$option"; cat "$file"; } >"$corpus/seed-$name"
    done
  done
  # In memory where there is such a folder: every input is a file, and a sheet's text is synced.
  [ -d /dev/shm ] && export TMPDIR=/dev/shm
  nice -n 10 cargo fuzz run "$target" "$corpus" -- -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=16384 -artifact_prefix="artifacts/$target/" || found=1
  # A run that goes on after a finding ends with 0.
  [ -z "$(ls -A "artifacts/$target")" ] || found=1
done
exit $found
