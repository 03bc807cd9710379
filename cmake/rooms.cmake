# The few functions a CMakeLists.txt of this tree needs. Sources are always listed, never globbed.
#
#   shardproof_room(sim SOURCES clock.cpp gate.cpp LINK localtensor PRIVATE_LINK Boost::fiber)
#   shardproof_test(sim_clock_test SOURCES clock_test.cpp LINK sim)
#   shardproof_test_part(run_op SOURCES run_op.cpp LINK ops)
#   shardproof_fuzzer(fuzz_loader SOURCES fuzz_loader.cpp LINK scenarios)
#   shardproof_bench(bench_planner SOURCES planner.cpp LINK localtensor)
#
# In LINK and PRIVATE_LINK a bare room name stands for shardproof::<room>.

# Turns room names into targets; refuses, for a room, what does not stand to its left in the tower.
function(shardproof_resolve_links out room)
  set(links "")
  list(FIND SHARDPROOF_TOWER "${room}" own)
  foreach(item IN LISTS ARGN)
    string(REGEX REPLACE "^shardproof(::|_)" "" name "${item}")
    list(FIND SHARDPROOF_TOWER "${name}" place)
    if(place EQUAL -1)
      list(APPEND links "${item}")
    elseif(own GREATER -1 AND place GREATER_EQUAL own)
      message(FATAL_ERROR "room ${room} may not link ${name}: the tower is ${SHARDPROOF_TOWER}")
    else()
      list(APPEND links "shardproof::${name}")
    endif()
  endforeach()
  set(${out} "${links}" PARENT_SCOPE)
endfunction()

# Gives a target a header of cmake/ that is precompiled once for all targets of an optimization, in
# a target of its own, which links what else is named: a reader has to have the macros of the target
# that precompiles, and no other that the header asks for. No header holds a room to the right of
# those that read it. gcc 12 no longer knows the strings of a precompiled header for the system's,
# and warns of what it inlines (its bug 105651): these warnings are off here and on where a compiler
# cache is found, as nothing is precompiled there.
function(shardproof_precompile target header optimization)
  if(NOT SHARDPROOF_PRECOMPILE)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                           -Wno-stringop-overread)
  endif()
  set(maker "${header}${optimization}")
  if(NOT TARGET ${maker})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${maker}.cpp" CONTENT "")
    add_library(${maker} OBJECT "${PROJECT_BINARY_DIR}/${maker}.cpp")
    target_link_libraries(${maker} PRIVATE ${SHARDPROOF_FMT} ${ARGN})
    target_include_directories(${maker} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
    target_compile_options(${maker} PRIVATE $<$<CONFIG:Release>:${optimization}>)
    target_precompile_headers(${maker} PRIVATE
      "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${header}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${maker})
endfunction()

# How much a room is optimized, and what it precompiles. The hot loops are in localtensor and ops:
# elsewhere -O3 buys compile time and gcc 12's false alarms, and where files and words are read and
# written even -O2 does.
function(shardproof_compile_room target room)
  if(room STREQUAL "localtensor")
    shardproof_precompile(${target} precompiled.h -O3)
    return()
  elseif(room STREQUAL "ops")
    shardproof_precompile(${target} precompiled_ops.h -O3)
    return()
  endif()
  set(optimization -O2)
  set(header precompiled_nouns.h)
  if(room MATCHES "^(scenarios|cli)$")
    set(optimization -O1)
  endif()
  if(room MATCHES "^(engine|scenarios|cli)$")
    set(header precompiled_engine.h)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${optimization}>)
  shardproof_precompile(${target} ${header} ${optimization})
endfunction()

# A room's static library shardproof_<room>, alias shardproof::<room>. A room without sources is an
# interface library, so that the tower configures from its first day.
# PRIVATE_LINK is for what no public header shows. UNFUZZED are sources like SOURCES, that no fuzzer
# reaches and its build leaves out; when one comes to be reached, the linker says what is missing.
function(shardproof_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;UNFUZZED;LINK;PRIVATE_LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardproof_room(${room}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT SHARDPROOF_FUZZ)
    list(APPEND arg_SOURCES ${arg_UNFUZZED})
  endif()
  shardproof_resolve_links(public ${room} ${arg_LINK})
  shardproof_resolve_links(private ${room} ${arg_PRIVATE_LINK})

  set(target shardproof_${room})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${private})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(shardproof::${room} ALIAS ${target})
  target_link_libraries(${target} ${scope} ${public})
  target_compile_features(${target} ${scope} cxx_std_20)
  if(arg_SOURCES)
    shardproof_compile_room(${target} ${room})
  endif()
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${SHARDPROOF_INCLUDE_ROOT}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  set_property(GLOBAL APPEND PROPERTY SHARDPROOF_ROOM_TARGETS ${target})
endfunction()

# The headers of a room that `cmake --install` installs, relative to the room's folder. A listed header
# may include listed headers only; the package test compiles each of them on its own.
function(shardproof_public_headers room)
  foreach(header IN LISTS ARGN)
    get_filename_component(folder "${room}/${header}" DIRECTORY)
    install(FILES "${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof/${folder}")
  endforeach()
endfunction()

# What every test and every part of one is compiled with.
function(shardproof_compile_test target)
  target_include_directories(${target} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
  # Tests are compiled once and run once: -O1 keeps the sum of both small.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  # Programs and parts alike, so that one precompiled header serves both.
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE ${SHARDPROOF_FMT})
  shardproof_precompile(${target} precompiled_tests.h -O1 GTest::gtest)
  target_compile_definitions(${target} PRIVATE
    SHARDPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SHARDPROOF_APPROVALS_DIR="${PROJECT_SOURCE_DIR}/tests/approvals"
    SHARDPROOF_RECEIVED_DIR="${PROJECT_BINARY_DIR}/approvals")
endfunction()

# Sources that several tests are made of, compiled once. A test names it in LINK.
function(shardproof_test_part name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  shardproof_resolve_links(links "" ${arg_LINK})
  add_library(${name} OBJECT ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${links} GTest::gtest)
  shardproof_compile_test(${name})
endfunction()

# A GoogleTest executable at build/<preset>/bin/<name>, and the one ctest entry that runs all its
# cases, or SHARDS entries that share them. ARGS are passed to it. A test that takes long says its
# TIMEOUT, and starts before others; before all of them one that mostly WAITS, for processes to end.
function(shardproof_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WAITS" "TIMEOUT;SHARDS" "SOURCES;LINK;ARGS")
  set(cost ${arg_TIMEOUT})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
    set(cost 0)
  endif()
  if(arg_WAITS)
    set(cost 10000)
  endif()
  shardproof_resolve_links(links "" ${arg_LINK})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${links} GTest::gtest GTest::gtest_main)
  shardproof_compile_test(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(entries ${name})
  if(arg_SHARDS)
    set(entries "")
    foreach(number RANGE 1 ${arg_SHARDS})
      list(APPEND entries ${name}_${number})
    endforeach()
  endif()
  set(index 0)
  foreach(entry IN LISTS entries)
    add_test(NAME ${entry} COMMAND ${name} ${arg_ARGS} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(${entry} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${cost})
    if(arg_SHARDS)
      set_tests_properties(${entry} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    endif()
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# A libFuzzer target at build/fuzz/fuzzers/<name>; its seeds are the files of tests/fuzz/corpus/<name>/.
function(shardproof_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  if(NOT SHARDPROOF_FUZZ)
    return()
  endif()
  shardproof_resolve_links(links "" ${arg_LINK})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${links})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_include_directories(${name} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
  add_dependencies(fuzzers ${name})
endfunction()

# A benchmark at build/<preset>/bench/<name>, built by the target benches and not by a plain build.
function(shardproof_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  shardproof_resolve_links(links "" ${arg_LINK})
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${links})
  target_include_directories(${name} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
  target_compile_definitions(${name} PRIVATE SHARDPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  add_dependencies(benches ${name})
endfunction()
