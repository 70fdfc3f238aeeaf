# What `cmake --install` gives: headers, libunisono.so, the unisono command, and a CMake package, so that elsewhere
#
#   find_package(unisono)
#   target_link_libraries(program PRIVATE unisono::unisono)
#
# is enough. fmt and Highway are inside the library: who compiles against it needs neither.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(unisono::unisono ALIAS unisono)
target_compile_features(unisono PUBLIC cxx_std_20)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)

# The command finds the library beside itself wherever the tree is moved to. The link path is kept for libraries that
# were in neither a system directory nor the source tree when we linked.
file(RELATIVE_PATH library_from_command /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(unisono_command PROPERTIES
  INSTALL_RPATH "$ORIGIN/${library_from_command}" INSTALL_RPATH_USE_LINK_PATH ON)
set_target_properties(unisono PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS unisono EXPORT unisonoTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS unisono_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# What `make deps` unpacked goes with the library: the loader would not find it, and the source tree may be removed.
foreach(dependency fmt::fmt hwy::hwy)
  get_target_property(location ${dependency} LOCATION)
  cmake_path(IS_PREFIX unpacked_packages "${location}" is_unpacked)
  if(is_unpacked)
    install(IMPORTED_RUNTIME_ARTIFACTS ${dependency} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unisono DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT unisonoTargets NAMESPACE unisono:: DESTINATION ${package_directory})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/unisonoConfig.cmake.in ${PROJECT_BINARY_DIR}/unisonoConfig.cmake
  INSTALL_DESTINATION ${package_directory} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unisonoConfig.cmake ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake
  DESTINATION ${package_directory})
