# Targets that use MLIR: dialects, passes, the compiler. Not LLVM's own macros, which force one
# target per folder and pull in options we do not want; only its tablegen function is used.
include_guard(GLOBAL)

find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(g4_mlir INTERFACE)
# Flags that must follow those of g4_options. Debian builds LLVM with RTTI and without exceptions;
# generated code has unused parameters.
add_library(g4_mlir_flags INTERFACE)
target_compile_options(g4_mlir_flags INTERFACE -fno-exceptions -Wno-unused-parameter)
target_link_libraries(g4_mlir INTERFACE g4_options g4_mlir_flags MLIR LLVM)
target_include_directories(g4_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(g4_mlir INTERFACE ${LLVM_DEFINITIONS_LIST})

# One precompiled header for all MLIR code: its headers cost 10 s a file otherwise.
file(WRITE ${CMAKE_BINARY_DIR}/g4_pch_anchor.cpp "")
add_library(g4_pch OBJECT ${CMAKE_BINARY_DIR}/g4_pch_anchor.cpp)
target_link_libraries(g4_pch PRIVATE g4_mlir)
target_precompile_headers(g4_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

# g4_mlir_library(name SOURCES a.cpp ... DEPS lib ... TABLEGEN target ...)
function(g4_mlir_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;TABLEGEN" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC g4_mlir ${A_DEPS})
  target_precompile_headers(${name} REUSE_FROM g4_pch)
  if(A_TABLEGEN)
    add_dependencies(${name} ${A_TABLEGEN})
  endif()
endfunction()

# g4_dialect_tablegen(target TD file DIALECT name PREFIX Gemma): <PREFIX>{Dialect,Types,Attrs,Enums,Ops}.{h,cpp}.inc and generated docs.
function(g4_dialect_tablegen target)
  cmake_parse_arguments(A "" "TD;DIALECT;PREFIX" "" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${A_TD})
  mlir_tablegen(${A_PREFIX}Dialect.h.inc -gen-dialect-decls -dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Dialect.cpp.inc -gen-dialect-defs -dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${A_PREFIX}Enums.cpp.inc -gen-enum-defs)
  mlir_tablegen(${A_PREFIX}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Types.h.inc -gen-typedef-decls -typedefs-dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Ops.h.inc -gen-op-decls -dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Ops.cpp.inc -gen-op-defs -dialect=${A_DIALECT})
  mlir_tablegen(${A_PREFIX}Dialect.md -gen-dialect-doc -dialect=${A_DIALECT})
  add_public_tablegen_target(${target})
endfunction()
