# g4_jinja: the Jinja2 engine of llama.cpp (common/jinja), which renders the chat templates inside model files.
#
# It comes from a source archive on the Python package index, fetched with pip (which knows the machine's index, proxy
# and certificates), checked against the hash below, and kept in the build folder. Only the files needed are extracted;
# cmake/jinja/limits.patch bounds what a template from a model file can use up.
# Offline: put the archive into a folder that pip searches (PIP_FIND_LINKS), or set G4_JINJA_ARCHIVE.
include_guard(GLOBAL)

set(G4_JINJA_ARCHIVE "" CACHE FILEPATH "llama_cpp_python-0.3.36.tar.gz, if it is already here")
set(_version 0.3.36)
set(_sha256 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e)
set(_deps ${CMAKE_BINARY_DIR}/_deps)
set(_name llama_cpp_python-${_version})
set(G4_JINJA_DIR ${_deps}/${_name}/vendor/llama.cpp CACHE INTERNAL "Where the engine and the published templates are")
# The files and the patch that the folder was made from; another patch makes it anew.
file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/jinja/limits.patch _patch_hash)
set(_stamp ${_deps}/${_name}.stamp)
set(_stamp_text "${_sha256} ${_patch_hash}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/jinja/limits.patch)

set(_have "")
if(EXISTS ${_stamp})
  file(READ ${_stamp} _have)
endif()
if(NOT _have STREQUAL _stamp_text)
  set(_archive ${G4_JINJA_ARCHIVE})
  if(NOT _archive)
    set(_archive ${_deps}/${_name}.tar.gz)
    set(_hash "")
    if(EXISTS ${_archive})
      file(SHA256 ${_archive} _hash)
    endif()
    if(NOT _hash STREQUAL _sha256)
      find_package(Python3 REQUIRED COMPONENTS Interpreter)
      message(STATUS "Fetching ${_name}.tar.gz with pip")
      # pip reads the archive's metadata, for which it sets up its build tool by itself; nothing is built.
      file(WRITE ${_deps}/jinja-requirements.txt "llama-cpp-python==${_version} --hash=sha256:${_sha256}\n")
      execute_process(
        COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --no-deps --no-binary llama-cpp-python
                --require-hashes --dest ${_deps} -r ${_deps}/jinja-requirements.txt
        RESULT_VARIABLE _result OUTPUT_VARIABLE _log ERROR_VARIABLE _log)
      if(_result OR NOT EXISTS ${_archive})
        message(FATAL_ERROR "pip could not fetch llama-cpp-python ${_version} (source archive):\n${_log}\n"
                            "Fetch it elsewhere and configure with -DG4_JINJA_ARCHIVE=<file>.")
      endif()
    endif()
  endif()
  file(SHA256 ${_archive} _hash)
  if(NOT _hash STREQUAL _sha256)
    message(FATAL_ERROR "${_archive} has SHA-256 ${_hash}, expected ${_sha256}")
  endif()
  file(REMOVE_RECURSE ${_deps}/${_name})
  set(_in ${_name}/vendor/llama.cpp)
  file(ARCHIVE_EXTRACT INPUT ${_archive} DESTINATION ${_deps}
       PATTERNS ${_in}/common/jinja/* ${_in}/common/json.* ${_in}/common/unicode.* ${_in}/ggml/include/ggml.h
                ${_in}/models/templates/google-gemma-4-* ${_in}/LICENSE)
  find_package(Git REQUIRED)
  # The ceiling keeps git from taking the files for a part of the repository around the build folder.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${_deps}/${_name}/vendor
            ${GIT_EXECUTABLE} apply ${CMAKE_CURRENT_LIST_DIR}/jinja/limits.patch
    WORKING_DIRECTORY ${G4_JINJA_DIR} RESULT_VARIABLE _result ERROR_VARIABLE _log)
  file(STRINGS ${G4_JINJA_DIR}/common/jinja/runtime.cpp _patched REGEX "RenderBudget")
  if(_result OR NOT _patched)
    message(FATAL_ERROR "cmake/jinja/limits.patch does not apply: ${_log}")
  endif()
  file(WRITE ${_stamp} "${_stamp_text}")
endif()

find_package(nlohmann_json REQUIRED)
set(_common ${G4_JINJA_DIR}/common)
add_library(g4_jinja STATIC
  ${_common}/jinja/caps.cpp ${_common}/jinja/lexer.cpp ${_common}/jinja/parser.cpp ${_common}/jinja/runtime.cpp
  ${_common}/jinja/string.cpp ${_common}/jinja/value.cpp ${_common}/json.cpp ${_common}/unicode.cpp
  ${CMAKE_CURRENT_LIST_DIR}/jinja/GgmlAbort.cpp)
# Never common/jinja itself: its string.h would shadow C's.
target_include_directories(g4_jinja SYSTEM PUBLIC ${_common} PRIVATE ${G4_JINJA_DIR}/ggml/include)
target_link_libraries(g4_jinja PUBLIC nlohmann_json::nlohmann_json PRIVATE g4_options)
target_include_directories(g4_jinja PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(g4_jinja PRIVATE -w)
