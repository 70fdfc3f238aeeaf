# Installs the built tree, moves it (nothing in it may know where it was), builds the outside program against it and
# runs that and the installed command. Everything happens inside the build directory.
set(scratch ${build_directory}/install_test)
set(prefix ${scratch}/moved)
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "This failed (${result}): ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${build_directory} --prefix ${scratch}/installed)
file(RENAME ${scratch}/installed ${prefix})

# Switching these off proves that users of the library need not have what it is made of.
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${scratch}/outside -G ${generator}
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON -D CMAKE_DISABLE_FIND_PACKAGE_HWY=ON -D CMAKE_DISABLE_FIND_PACKAGE_hwy=ON
  --no-warn-unused-cli)
file(STRINGS ${scratch}/outside/CMakeCache.txt found REGEX "^unisono_DIR:")
if(NOT found MATCHES "${prefix}/")
  message(FATAL_ERROR "Another Unisono was found: ${found}")
endif()
run(${CMAKE_COMMAND} --build ${scratch}/outside)

run(${scratch}/outside/outside)
if(NOT output MATCHES "bfloat16")
  message(FATAL_ERROR "The outside program did not print the names of the element types.")
endif()
run(${prefix}/bin/unisono --version)
if(NOT output MATCHES "^unisono [0-9]")
  message(FATAL_ERROR "The installed command did not say its version.")
endif()
