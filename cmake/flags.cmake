# Sets the compiler flags of the whole tree, and the include root.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# With a compiler cache (docs/install.md), turn this off: a precompiled header differs in each build
# folder, so the cache would have no hits.
option(SHARDPROOF_PRECOMPILE "Precompile the standard library's headers" ON)

# The path "shardproof/<room>/x.h" names the same header in the tree and installed: the build folder
# holds a link named shardproof to the source root.
set(SHARDPROOF_INCLUDE_ROOT "${PROJECT_BINARY_DIR}/include")
file(MAKE_DIRECTORY "${SHARDPROOF_INCLUDE_ROOT}")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}" "${SHARDPROOF_INCLUDE_ROOT}/shardproof" SYMBOLIC)

# Results have equal bits whichever compiler built the program, hence no contraction into fma. File
# names in messages are relative to the tree, so that they are equal on every machine.
set(SHARDPROOF_CXX_FLAGS
  -Wall -Wextra -Wpedantic
  -ffp-contract=off
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  -fmacro-prefix-map=${SHARDPROOF_INCLUDE_ROOT}/shardproof/=)
if(SHARDPROOF_WERROR)
  list(APPEND SHARDPROOF_CXX_FLAGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 warns of an overlap in every `"literal" + std::string` that it inlines (its bug 105651).
  list(APPEND SHARDPROOF_CXX_FLAGS -Wno-restrict)
endif()
if(SHARDPROOF_COMPILER_HEAP AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage takes gcc 8 % of its time. Without it, a large source of demo takes 1.1 GB, not
  # 0.8, and one of release 1.1 GB.
  list(APPEND SHARDPROOF_CXX_FLAGS --param=ggc-min-heapsize=${SHARDPROOF_COMPILER_HEAP})
endif()
if(SHARDPROOF_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc cannot prove initialization in instrumented code; builds without sanitizers have the warning.
  list(APPEND SHARDPROOF_CXX_FLAGS -Wno-maybe-uninitialized)
endif()
# The room that holds CUDA sources sets the flags of nvcc.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${SHARDPROOF_CXX_FLAGS}>")

if(SHARDPROOF_SANITIZE)
  # The address sanitizer reports null pointers, too. Checks of them, of alignment and of sizes known
  # to the compiler would be a third of the instrumented code.
  add_compile_options(-fsanitize=${SHARDPROOF_SANITIZE} -fno-sanitize-recover=all
                      -fno-sanitize=null,alignment,object-size,vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SHARDPROOF_SANITIZE})
endif()
if(SHARDPROOF_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SHARDPROOF_FUZZ needs clang (libFuzzer); use the preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
