# Packs the built tree as a Debian package and checks its control data and its files. ctest runs it
# with cmake -P and build, work, version and program (CPack's).
cmake_minimum_required(VERSION 3.25)

function(run out)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message("${output}${errors}")
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

function(expect text pattern)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "expected a match of '${pattern}' in:\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE "${work}")
run(output "${program}" -G DEB --config "${build}/CPackConfig.cmake" -B "${work}")
file(GLOB package "${work}/shardproof_*.deb")
list(LENGTH package count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one shardproof_*.deb in ${work}, found ${count}")
endif()

run(control dpkg-deb --field "${package}")
expect("${control}" "Package: shardproof\n")
expect("${control}" "Version: ${version}(-[0-9]+)?\n")
expect("${control}" "Depends: [^\n]*libc6")
expect("${control}" "Depends: [^\n]*libboost-fiber")
expect("${control}" "Depends: [^\n]*libfmt")
expect("${control}" "Suggests: [^\n]*libfmt-dev")
expect("${control}" "Section: science\n")

run(files dpkg-deb --contents "${package}")
expect("${files}" " \\./usr/bin/shardproof\n")
expect("${files}" " \\./usr/include/shardproof/cli/cli\\.h\n")
expect("${files}" "/cmake/shardproof/shardproofConfig\\.cmake\n")
