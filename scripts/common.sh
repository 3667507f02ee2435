# Shared by the scripts beside it: sourced, not run. Sets $root and goes there; says what it does.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

step() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Processes at once: one per core, but no more than memory allows. A file that includes MLIR takes about 1 GiB to compile.
jobs=$(nproc)
memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
if [ "$jobs" -gt "$memory" ]; then jobs=$((memory > 1 ? memory : 1)); fi
jobs=${G4_JOBS:-$jobs}

# ccache, if present. A fresh clone has fresh time stamps and maybe another path, and should still find everything cached: so
# time stamps must not go into a precompiled header, and paths count from the root.
launcher=()
if command -v ccache >/dev/null; then
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
    "-DCMAKE_CXX_FLAGS=-Xclang -fno-pch-timestamp")
fi

# folder PRESET: the build folder that CMakePresets.json gives it.
folder() {
  case $1 in
  release) echo build ;;
  runtime | asan | tsan) echo "build-$1" ;;
  *) die "unknown preset '$1': use release, runtime, asan or tsan" ;;
  esac
}

# configure PRESET [cmake arguments]: quiet unless it fails.
configure() {
  local log
  folder "$1" >/dev/null
  log=$(cmake --preset "$1" "${launcher[@]}" "${@:2}" 2>&1) || {
    printf '%s\n' "$log" >&2
    die "cmake failed for preset $1"
  }
}
