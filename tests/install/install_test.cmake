# Installs the built tree, moves it (nothing in it may know where it was), builds the program of README.md against it and
# runs it the way README.md says. Everything happens inside the build directory.
set(scratch ${build_directory}/install_test)
set(prefix ${scratch}/moved)
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output
    WORKING_DIRECTORY ${scratch}/outside)
  message("${output}")
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "This failed (${result}): ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The block of README.md that is marked with this name.
file(READ ${CMAKE_CURRENT_LIST_DIR}/../../README.md readme)
function(snippet name result)
  string(FIND "${readme}" "<!-- test: ${name} -->" start)
  if(start EQUAL -1)
    message(FATAL_ERROR "README.md has no block marked ${name}.")
  endif()
  string(SUBSTRING "${readme}" ${start} -1 rest)
  string(REGEX MATCH "^[^\n]*\n```[a-z]*\n" head "${rest}")  # the mark and the fence
  string(LENGTH "${head}" skipped)
  string(SUBSTRING "${rest}" ${skipped} -1 rest)
  string(FIND "${rest}" "\n```" end)
  string(SUBSTRING "${rest}" 0 ${end} rest)
  set(${result} "${rest}\n" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${scratch}/outside)
snippet(main.cpp program)
file(WRITE ${scratch}/outside/main.cpp "${program}")
snippet(CMakeLists.txt lists)
file(WRITE ${scratch}/outside/CMakeLists.txt "${lists}")

run(${CMAKE_COMMAND} --install ${build_directory} --prefix ${scratch}/installed)
file(RENAME ${scratch}/installed ${prefix})

# Switching these off proves that users of the library need not have what it is made of.
run(${CMAKE_COMMAND} -S . -B build -G ${generator} -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON -D CMAKE_DISABLE_FIND_PACKAGE_HWY=ON -D CMAKE_DISABLE_FIND_PACKAGE_hwy=ON
  --no-warn-unused-cli)
file(STRINGS ${scratch}/outside/build/CMakeCache.txt found REGEX "^unisono_DIR:")
string(FIND "${found}" "=${prefix}/" place)
if(place EQUAL -1)
  message(FATAL_ERROR "Another Unisono was found: ${found}")
endif()
run(${CMAKE_COMMAND} --build build)

snippet(run line)
string(STRIP "${line}" line)
run(sh -c "PATH='${prefix}/bin':$PATH && ${line}")
foreach(rank RANGE 3)
  if(NOT output MATCHES "\\[${rank}\\] rank ${rank}: 10")
    message(FATAL_ERROR "Rank ${rank} of README.md's program did not print the sum.")
  endif()
endforeach()
run(${prefix}/bin/unisono --version)
if(NOT output MATCHES "^unisono [0-9]")
  message(FATAL_ERROR "The installed command did not say its version.")
endif()
