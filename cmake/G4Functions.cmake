# Targets that use no LLVM: the runtime, the GGUF reader, their tests and fuzzers.
include_guard(GLOBAL)

add_library(g4_options INTERFACE)
target_include_directories(g4_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(g4_options INTERFACE -Wall -Wextra)
if(G4_WERROR)
  target_compile_options(g4_options INTERFACE -Werror)
endif()
if(G4_SANITIZE)
  target_compile_options(g4_options INTERFACE -fsanitize=${G4_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(g4_options INTERFACE -fsanitize=${G4_SANITIZE})
endif()

# g4_library(name SOURCES a.cpp ... DEPS other ...): a static library.
function(g4_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC g4_options ${A_DEPS})
endfunction()

# g4_test(name SOURCES a.cpp ... DEPS lib ...): a GoogleTest program run by ctest as one test.
function(g4_test name)
  if(NOT G4_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;ARGS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE g4_options ${A_DEPS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE G4_TEST_DATA="${CMAKE_SOURCE_DIR}/test/data" G4_MODELS="${CMAKE_SOURCE_DIR}/models")
  add_test(NAME unit/${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(unit/${name} PROPERTIES LABELS unit)
endfunction()

# g4_fuzzer(name SOURCES a.cpp DEPS lib ...): a libFuzzer target; needs clang. Its libraries must be
# built with -fsanitize=fuzzer-no-link, which the sanitizer build (G4_SANITIZE) adds for all of them.
function(g4_fuzzer name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE g4_options ${A_DEPS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
