# Functions that a CMakeLists.txt of this tree calls. Sources are listed, never globbed.
#
#   shardproof_room(sim SOURCES call/call.cpp matching/call_matcher.cpp
#                   PUBLIC_HEADERS call/call.h LINK localtensor
#                   PRIVATE_LINK Boost::fiber)
#   shardproof_test(sim_test SOURCES deadlock_test.cpp LINK sim)
#   shardproof_test_part(run_op SOURCES run_op.cpp LINK ops)
#   shardproof_test_library(fake_gpu SOURCES arena.cpp LINK backends)
#   shardproof_fuzzer(fuzz_loader SOURCES fuzz_loader.cpp LINK scenarios)
#   shardproof_bench(bench_planner SOURCES planner.cpp LINK localtensor)
#
# In LINK and PRIVATE_LINK a room name means shardproof::<room>.

# Returns the targets of room names. Fails if a room links one that does not stand to its left.
function(shardproof_resolve_links out room)
  set(links "")
  list(FIND SHARDPROOF_ROOMS "${room}" own)
  foreach(item IN LISTS ARGN)
    string(REGEX REPLACE "^shardproof(::|_)" "" name "${item}")
    list(FIND SHARDPROOF_ROOMS "${name}" place)
    if(place EQUAL -1)
      list(APPEND links "${item}")
    elseif(own GREATER -1 AND place GREATER_EQUAL own)
      message(FATAL_ERROR "room ${room} may not link ${name}, which stands to its right: the order is ${SHARDPROOF_ROOMS}")
    else()
      list(APPEND links "shardproof::${name}")
    endif()
  endforeach()
  set(${out} "${links}" PARENT_SCOPE)
endfunction()

# Lets a target use a header of cmake/ that is precompiled once for each optimization level.
#
# A target of its own precompiles it and links the further arguments. A target that uses it must have
# the macros of that one, and it includes no header of a room to the right. gcc 12 warns about
# writes in strings that it inlines (its bug 105651): these warnings are off here.
function(shardproof_precompile target header optimization)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                           -Wno-stringop-overread)
  endif()
  if(NOT SHARDPROOF_PRECOMPILE)
    return()
  endif()
  set(maker "${header}${optimization}")
  if(NOT TARGET ${maker})
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${maker}.cpp" CONTENT "")
    add_library(${maker} OBJECT "${PROJECT_BINARY_DIR}/${maker}.cpp")
    target_link_libraries(${maker} PRIVATE ${SHARDPROOF_FMT} ${ARGN})
    target_include_directories(${maker} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
    target_compile_options(${maker} PRIVATE $<$<CONFIG:Release>:${optimization}>)
    if(header MATCHES "tests")
      shardproof_leave_out_ub_checks(${maker})
    endif()
    target_precompile_headers(${maker} PRIVATE
      "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${header}")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${maker})
endfunction()

# Leaves the checks of undefined behaviour to the rooms: with them, tests take twice as long to build.
function(shardproof_leave_out_ub_checks target)
  if(SHARDPROOF_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# Sets a room's optimization level and precompiled header. The hot loops are in localtensor and ops,
# which have the preset's CMAKE_CXX_FLAGS_RELEASE (-O3; -Og in demo, where compile time counts).
# Elsewhere -O3 costs compile time and raises false warnings of gcc 12: SHARDPROOF_COLD_OPTIMIZATION
# holds there. -Og is enough where files and arguments are read and written, and for sources that
# run once a program or once a finding (`is_cold`).
function(shardproof_compile_room target room is_cold)
  set(optimization ${SHARDPROOF_COLD_OPTIMIZATION})
  if(optimization STREQUAL "-O2" AND (is_cold OR room MATCHES "^(scenarios|cli)$"))
    set(optimization -Og)
  endif()
  if(room MATCHES "^(localtensor|ops)$" AND NOT is_cold)
    set(optimization "")
  endif()
  set(header precompiled_tensors.h)
  if(room STREQUAL "localtensor")
    set(header precompiled.h)
  elseif(room STREQUAL "ops" AND NOT is_cold)
    set(header precompiled_ops.h)
  elseif(room MATCHES "^(ops|engine|scenarios|cli)$")
    set(header precompiled_engine.h)
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${optimization}>")
  shardproof_precompile(${target} ${header} "${optimization}")
  if(room STREQUAL "ops" AND NOT is_cold)
    # The compiler vectorizes functor loops only if it may ignore errno and floating-point traps,
    # which ops do not use. Values are equal.
    foreach(compiled ${target} ${header})
      if(TARGET ${compiled})
        target_compile_options(${compiled} PRIVATE
          "$<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math>")
      endif()
    endforeach()
  endif()
endfunction()

# Compiles sources of a target as one: up to 8 if SHARDPROOF_UNITY is on, up to 16 with MANY, and up to
# 32 if SHARDPROOF_UNITY_ALL is on. Targets at -Og have MANY. ALONE lists sources with hot loops that
# only SHARDPROOF_UNITY_ALL joins. NO_UNITY lists sources that always compile alone; ALL means all.
function(shardproof_join_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MANY" "" "SOURCES;ALONE;NO_UNITY")
  if(NOT (SHARDPROOF_UNITY OR SHARDPROOF_UNITY_ALL) OR arg_NO_UNITY STREQUAL "ALL")
    return()
  endif()
  set(most 8)
  if(arg_MANY)
    set(most 16)
  endif()
  set(alone ${arg_NO_UNITY})
  if(SHARDPROOF_UNITY_ALL)
    set(most 32)
  else()
    list(APPEND alone ${arg_ALONE})
  endif()
  # gcc takes a joined source for a header, whose types must not use an anonymous namespace.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${most}
    UNITY_BUILD_CODE_BEFORE_INCLUDE
      "#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored \"-Wsubobject-linkage\"
#endif")
  if(alone)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Adds CUDA sources to the list `out`. A unity build joins them as <name>.cu, because nvcc reads the
# headers of each source three times. CMake itself joins CUDA sources from 3.31 on.
function(shardproof_add_cuda_sources out name)
  set(added ${ARGN})
  if(SHARDPROOF_UNITY OR SHARDPROOF_UNITY_ALL)
    file(RELATIVE_PATH room "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    set(added "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu")
    list(TRANSFORM ARGN REPLACE "(.+)" "#include \"shardproof/${room}/\\1\"\n" OUTPUT_VARIABLE lines)
    list(JOIN lines "" text)
    file(CONFIGURE OUTPUT "${added}" CONTENT "${text}")
  endif()
  set(${out} ${${out}} ${added} PARENT_SCOPE)
endfunction()

# Adds a room's static library shardproof_<room>, alias shardproof::<room>.
#
#   SOURCES         sources of the library
#   UNFUZZED        further sources, which no fuzzer reaches; the fuzz preset leaves them out
#   COLD            further sources, which no fuzzer reaches and which run once a program or once a
#                   finding
#   PUBLIC_HEADERS  headers that are installed; other rooms include only these (tests/tidy checks it)
#   LINK            rooms and libraries that public headers show
#   PRIVATE_LINK    libraries that no public header shows
#   OPTIONS         compile options of this room alone
#   ALONE           further sources, with hot loops: see shardproof_join_sources
#   NO_UNITY        sources that always compile alone
function(shardproof_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" ""
    "SOURCES;UNFUZZED;COLD;PUBLIC_HEADERS;LINK;PRIVATE_LINK;OPTIONS;ALONE;NO_UNITY")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardproof_room(${room}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  list(APPEND arg_SOURCES ${arg_ALONE})
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
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${SHARDPROOF_INCLUDE_ROOT}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(arg_SOURCES)
    target_compile_options(${target} PRIVATE ${arg_OPTIONS})
    shardproof_compile_room(${target} ${room} OFF)
    set(many "")
    if(room MATCHES "^(scenarios|cli)$")
      set(many MANY)
    endif()
    shardproof_join_sources(${target} ${many} SOURCES ${arg_SOURCES} ALONE ${arg_ALONE}
                            NO_UNITY ${arg_NO_UNITY})
  endif()
  if(arg_COLD AND NOT SHARDPROOF_FUZZ)
    add_library(${target}_cold OBJECT ${arg_COLD})
    target_link_libraries(${target}_cold PRIVATE ${public} ${private})
    target_include_directories(${target}_cold PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
    target_compile_options(${target}_cold PRIVATE ${arg_OPTIONS})
    shardproof_compile_room(${target}_cold ${room} ON)
    shardproof_join_sources(${target}_cold MANY SOURCES ${arg_COLD})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_cold>)
  endif()
  list(TRANSFORM arg_PUBLIC_HEADERS PREPEND "${room}/")
  set_property(GLOBAL APPEND PROPERTY SHARDPROOF_PUBLIC_HEADERS ${arg_PUBLIC_HEADERS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
  set_property(GLOBAL APPEND PROPERTY SHARDPROOF_ROOM_TARGETS ${target})
endfunction()

# Sets the compile options, definitions and precompiled header of a test or a part of one.
function(shardproof_compile_test target)
  target_include_directories(${target} PRIVATE "${SHARDPROOF_INCLUDE_ROOT}")
  # A test is compiled once and run once: -Og keeps the sum of both times small.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  shardproof_leave_out_ub_checks(${target})
  # Programs and parts have equal options, so that both use one precompiled header.
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE ${SHARDPROOF_FMT})
  get_target_property(links ${target} LINK_LIBRARIES)
  if("nlohmann_json::nlohmann_json" IN_LIST links)
    shardproof_precompile(${target} precompiled_json_tests.h -Og
                          GTest::gtest nlohmann_json::nlohmann_json)
  else()
    shardproof_precompile(${target} precompiled_tests.h -Og GTest::gtest)
  endif()
  target_compile_definitions(${target} PRIVATE
    "$<$<BOOL:${SHARDPROOF_FEW_DRAWS}>:SHARDPROOF_FEW_DRAWS>"
    SHARDPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SHARDPROOF_APPROVALS_DIR="${PROJECT_SOURCE_DIR}/tests/approvals"
    SHARDPROOF_RECEIVED_DIR="${PROJECT_BINARY_DIR}/approvals")
endfunction()

# Adds sources that several tests share, compiled once. A test names the part in LINK.
function(shardproof_test_part name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  shardproof_resolve_links(links "" ${arg_LINK})
  add_library(${name} OBJECT ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${links} GTest::gtest)
  shardproof_compile_test(${name})
endfunction()

# Adds a static library that only tests link, such as a fake of an outside library. It is compiled as
# engine is, so that both use one precompiled header.
function(shardproof_test_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;PRIVATE_LINK")
  shardproof_resolve_links(links "" ${arg_LINK})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${links} PRIVATE ${SHARDPROOF_FMT} ${arg_PRIVATE_LINK})
  target_include_directories(${name} PUBLIC "${SHARDPROOF_INCLUDE_ROOT}")
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${SHARDPROOF_COLD_OPTIMIZATION}>)
  shardproof_precompile(${name} precompiled_engine.h ${SHARDPROOF_COLD_OPTIMIZATION})
  shardproof_join_sources(${name} MANY SOURCES ${arg_SOURCES})
endfunction()

# Adds a GoogleTest program at build/<preset>/bin/<name> and the ctest entry <name> that runs all its
# cases. One program holds the tests of a folder: bin/<name> --gtest_filter='Suite.*' runs some.
#
#   SOURCES   its sources
#   LINK      rooms, parts and libraries
#   ARGS      arguments of the program
#   SHARDS n  n entries <name>_1 ... <name>_n, which share the cases
#   TIMEOUT s seconds an entry may take (900 if absent); ctest starts long entries first
#   WAITS     the entry mostly waits for processes: ctest starts it before all others
#   NO_UNITY  sources that compile alone in a unity build; ALL means each of them
function(shardproof_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WAITS" "TIMEOUT;SHARDS" "SOURCES;LINK;ARGS;NO_UNITY")
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
  shardproof_join_sources(${name} MANY SOURCES ${arg_SOURCES} NO_UNITY ${arg_NO_UNITY})
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

# Adds a libFuzzer target at build/fuzz/fuzzers/<name>. Its seeds are the files of
# tests/fuzz/corpus/<name>/.
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

# Adds a benchmark at build/<preset>/bench/<name>. The target benches builds it, a plain build does
# not.
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
