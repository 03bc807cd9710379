# Run by ctest with cmake -P: install, then configure, build and run the consumer against the copy.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message("${output}")
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()

set(flags "-Wall -Wextra -Wpedantic -Werror")
if(sanitize)
  string(APPEND flags " -fsanitize=${sanitize}")
endif()

file(REMOVE_RECURSE "${work}")
run("${CMAKE_COMMAND}" --install "${build}" --prefix "${work}/prefix")

file(GLOB_RECURSE headers RELATIVE "${work}/prefix/include" "${work}/prefix/include/shardproof/*.h")
list(FILTER headers EXCLUDE REGEX "/cuda/")
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
file(WRITE "${work}/every_header.cpp" ${headers})

# The op of another author in docs/adding_an_op.md, as a program with all commands.
file(READ "${docs}/adding_an_op.md" page)
string(REGEX MATCH "```cpp\n(#include \"shardproof/cli/cli\\.h\".*\n}\n)```" found "${page}")
if(NOT found)
  message(FATAL_ERROR "docs/adding_an_op.md has no program that includes shardproof/cli/cli.h")
endif()
file(WRITE "${work}/my_tool.cpp" "${CMAKE_MATCH_1}" [[

int main(int argc, char** argv) {
  Registries registries{builtin_ops(), builtin_backends()};
  registries.ops.add(my_energy());
  return cli_main(argc, argv, registries);
}
]])

run("${CMAKE_COMMAND}" -G Ninja -S "${consumer}" -B "${work}/consumer"
    "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}"
    "-DCMAKE_PREFIX_PATH=${work}/prefix" "-Dshardproof_wanted=${version}"
    "-Dshardproof_every_header=${work}/every_header.cpp"
    "-Dshardproof_my_tool=${work}/my_tool.cpp")
run("${CMAKE_COMMAND}" --build "${work}/consumer")
run("${work}/consumer/consumer")
run("${work}/consumer/my_tool" check-ops --op my_energy)
run("${work}/consumer/my_tool" check-ops --op my_energy --backward)
