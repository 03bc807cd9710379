# The few functions a CMakeLists.txt of this tree needs. Sources are always listed, never globbed.
#
#   shardproof_room(sim SOURCES clock.cpp gate.cpp LINK localtensor PRIVATE_LINK Boost::fiber)
#   shardproof_test(sim_clock_test SOURCES clock_test.cpp LINK sim)
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

# A room's static library shardproof_<room>, alias shardproof::<room>. A room without sources is an
# interface library, so that the tower configures from its first day.
# PRIVATE_LINK is for what no public header shows.
function(shardproof_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;PRIVATE_LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardproof_room(${room}): unexpected ${arg_UNPARSED_ARGUMENTS}")
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
  # The hot loops are in these two rooms; elsewhere -O3 buys compile time and gcc 12's false alarms.
  if(arg_SOURCES AND NOT room MATCHES "^(localtensor|ops)$")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${SHARDPROOF_INCLUDE_ROOT}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  set_property(GLOBAL APPEND PROPERTY SHARDPROOF_ROOM_TARGETS ${target})
endfunction()

# A GoogleTest executable at build/<preset>/bin/<name>, and the one ctest entry that runs all its
# cases. ARGS are passed to it.
function(shardproof_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LINK;ARGS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  shardproof_resolve_links(links "" ${arg_LINK})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${links} GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
  # Tests are compiled once and run once: -O1 keeps the sum of both small.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE
    SHARDPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SHARDPROOF_APPROVALS_DIR="${PROJECT_SOURCE_DIR}/tests/approvals"
    SHARDPROOF_RECEIVED_DIR="${PROJECT_BINARY_DIR}/approvals")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
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
