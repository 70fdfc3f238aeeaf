# Installs the built tree, moves it (nothing in it may know where it was), builds the programs of README.md and docs/c.md
# against it and runs them the way these pages say. Everything happens inside the build directory.
set(scratch ${build_directory}/install_test)
set(prefix ${scratch}/moved)
file(REMOVE_RECURSE ${scratch})

set(outside ${scratch}/outside)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output
    WORKING_DIRECTORY ${outside})
  message("${output}")
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "This failed (${result}): ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The block of a page that is marked with this name.
function(snippet page name result)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/../../${page} text)
  string(FIND "${text}" "<!-- test: ${name} -->" start)
  if(start EQUAL -1)
    message(FATAL_ERROR "${page} has no block marked ${name}.")
  endif()
  string(SUBSTRING "${text}" ${start} -1 rest)
  string(REGEX MATCH "^[^\n]*\n```[a-z]*\n" head "${rest}")  # the mark and the fence
  string(LENGTH "${head}" skipped)
  string(SUBSTRING "${rest}" ${skipped} -1 rest)
  string(FIND "${rest}" "\n```" end)
  string(SUBSTRING "${rest}" 0 ${end} rest)
  set(${result} "${rest}\n" PARENT_SCOPE)
endfunction()

# Builds a page's programs in a directory of their own and runs them as the page says; `output` is what they printed.
function(try_page page programs)
  file(MAKE_DIRECTORY ${outside})
  foreach(name ${programs} CMakeLists.txt)
    snippet(${page} ${name} text)
    file(WRITE ${outside}/${name} "${text}")
  endforeach()
  # Switching these off proves that users of the library need not have what it is made of.
  run(${CMAKE_COMMAND} -S . -B build -G ${generator} ${ARGN} -D CMAKE_PREFIX_PATH=${prefix}
    -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON -D CMAKE_DISABLE_FIND_PACKAGE_HWY=ON -D CMAKE_DISABLE_FIND_PACKAGE_hwy=ON
    --no-warn-unused-cli)
  file(STRINGS ${outside}/build/CMakeCache.txt found REGEX "^unisono_DIR:")
  string(FIND "${found}" "=${prefix}/" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "Another Unisono was found: ${found}")
  endif()
  run(${CMAKE_COMMAND} --build build)
  snippet(${page} run line)
  string(STRIP "${line}" line)
  run(sh -c "PATH='${prefix}/bin':$PATH && ${line}")
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${outside})
run(${CMAKE_COMMAND} --install ${build_directory} --prefix ${scratch}/installed)
file(RENAME ${scratch}/installed ${prefix})

try_page(README.md main.cpp -D CMAKE_CXX_COMPILER=${compiler})
foreach(rank RANGE 3)
  if(NOT output MATCHES "\\[${rank}\\] rank ${rank}: 10")
    message(FATAL_ERROR "Rank ${rank} of README.md's program did not print the sum.")
  endif()
endforeach()

if(c_compiler)
  set(outside ${scratch}/outside_in_c)
  try_page(docs/c.md "main.c;again.c" -D CMAKE_C_COMPILER=${c_compiler} "-D CMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic")
  foreach(rank RANGE 3)
    math(EXPR left "(${rank} + 3) % 4")
    if(NOT output MATCHES "\\[${rank}\\] rank ${rank} of 4: sum 6, max 3\n" OR
       NOT output MATCHES "\\[${rank}\\] ArgumentError: group_src is 4, and the group has 4 ranks\n" OR
       NOT output MATCHES "\\[${rank}\\] rank ${rank}: sum 14, from the left ${left}\n")
      message(FATAL_ERROR "Rank ${rank} of a program in docs/c.md did not print what the page says.")
    endif()
  endforeach()
endif()

run(${prefix}/bin/unisono --version)
if(NOT output MATCHES "^unisono [0-9]")
  message(FATAL_ERROR "The installed command did not say its version.")
endif()
