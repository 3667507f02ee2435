# Toolchain file: clang and lld for AArch64 Linux, with Debian's cross libraries (libstdc++-12-dev-arm64-cross).
# Headers that fit every machine (FlatBuffers, xxHash, CLI11) come from /usr/include, which clang searches last.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER clang-22)
set(CMAKE_CXX_COMPILER clang++-22)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
