# What `cmake --install` gives: headers, libunisono.so, the unisono command, and a CMake package, so that elsewhere
#
#   find_package(unisono)
#   target_link_libraries(program PRIVATE unisono::unisono)
#
# is enough. fmt and Highway are inside the library, and the library is inside the command: neither needs anything beside it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(unisono::unisono ALIAS unisono)
target_compile_features(unisono PUBLIC cxx_std_20)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)

add_dependencies(unisono_command unisono)  # installed together, so `make install` asks for the command only
install(TARGETS unisono EXPORT unisonoTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS unisono_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unisono DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT unisonoTargets NAMESPACE unisono:: DESTINATION ${package_directory})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/unisonoConfig.cmake.in ${PROJECT_BINARY_DIR}/unisonoConfig.cmake
  INSTALL_DESTINATION ${package_directory} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unisonoConfig.cmake ${PROJECT_BINARY_DIR}/unisonoConfigVersion.cmake
  DESTINATION ${package_directory})
