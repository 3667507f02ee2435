# What `cmake --install` and `cpack` give: the programs, libg4run with its headers and find_package(g4), examples, pages.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# libg4run: the whole runtime behind the headers runtime/api/g4.h and Engine.h.
set(parts g4_base g4_module_format g4_module g4_device g4_kv g4_engine g4_text g4_api)
list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(g4run_shared SHARED ${objects})
target_link_libraries(g4run_shared PRIVATE g4_api)
set_target_properties(g4run_shared PROPERTIES OUTPUT_NAME g4run EXPORT_NAME g4run LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(g4run_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/g4>)
target_compile_features(g4run_shared INTERFACE cxx_std_20)
add_library(g4::g4run ALIAS g4run_shared)

# The public headers and what they include, in the folders that the includes name.
foreach(header runtime/api/g4.h runtime/api/Engine.h runtime/base/Status.h runtime/engine/Tap.h runtime/sched/Decoder.h
               runtime/text/AnswerParts.h runtime/text/Detokenizer.h runtime/text/Part.h runtime/text/RowSampler.h runtime/text/Sampler.h
               runtime/text/StopStrings.h runtime/text/TokenSets.h runtime/text/Tokenizer.h runtime/text/TokenizerFormat.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/g4/${folder})
endforeach()

install(TARGETS g4run_shared EXPORT g4 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT g4 NAMESPACE g4:: FILE g4Config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/g4)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/g4ConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/g4ConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/g4)

install(TARGETS g4run g4-runner)
if(G4_COMPILER)
  install(TARGETS g4c g4-opt)
  # Debian keeps libMLIR out of the linker's default folders.
  set_target_properties(g4c g4-opt PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# cpack -G DEB
set(CPACK_PACKAGE_NAME g4)
set(CPACK_PACKAGE_VENDOR g4)
set(CPACK_PACKAGE_CONTACT "g4 developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiles Gemma 4 models ahead of time and runs them")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # dependencies from what the programs link
if(G4_COMPILER)
  # Named here because libLLVM.so.22.1 also has a symlink in llvm-22-dev: dpkg-shlibdeps finds either of the two
  # packages, by chance of its hash order, and knows no dependency for the second.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS libllvm${LLVM_VERSION_MAJOR})
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
