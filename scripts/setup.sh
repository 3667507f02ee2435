#!/usr/bin/env bash
# Installs what g4 needs to build and test on Debian 12. Does nothing where all of it is there.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  # Compiler: MLIR 22.1, lld as a library and as the linker.
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools clang-22 lld-22 liblld-22-dev libclang-rt-22-dev libzstd-dev zlib1g-dev
  spirv-tools
  # Build.
  cmake ninja-build ccache flatbuffers-compiler libflatbuffers-dev
  # Fetching and patching the Jinja engine (cmake/Jinja.cmake).
  git python3-pip ca-certificates
  # Runtime.
  nlohmann-json3-dev libcli11-dev libspdlog-dev libxxhash-dev libvulkan-dev libboost1.81-dev
  # g4-runner for AArch64, and emulators to test it and old x86 processors with.
  libstdc++-12-dev-arm64-cross qemu-user
  # Tests: GoogleTest, a Vulkan device in software, numpy, a terminal, the reader of manual pages.
  libgtest-dev mesa-vulkan-drivers vulkan-validationlayers python3 python3-numpy
  tmux groff-base
)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

step "Installing: ${missing[*]}"
command -v apt-get >/dev/null || die "this script knows Debian's apt only; install the packages above by hand"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "run this as root, or install sudo: it has packages to install"
  sudo=(sudo)
fi
apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" </dev/null; }
apt update || die "apt-get update failed; is there a network?"
apt install -y --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install all packages. g4 needs Debian 12 with its security updates: LLVM 22 comes from there"
