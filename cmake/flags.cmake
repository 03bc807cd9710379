# Compiler flags of the whole tree, and the include root.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(SHARDPROOF_CCACHE ccache)
foreach(language IN ITEMS CXX CUDA)
  if(SHARDPROOF_CCACHE AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER "${SHARDPROOF_CCACHE}")
  endif()
endforeach()

# What nearly every source includes is read once, except where a compiler cache spares all of it: a
# precompiled header is different in each build folder, so nothing would be found in the cache.
set(precompile ON)
if(SHARDPROOF_CCACHE)
  set(precompile OFF)
endif()
option(SHARDPROOF_PRECOMPILE "Precompile the standard library's headers" ${precompile})

# "shardproof/<room>/x.h" has to mean the same in the tree and installed, so the build folder holds
# a link of that name to the source root.
set(SHARDPROOF_INCLUDE_ROOT "${PROJECT_BINARY_DIR}/include")
file(MAKE_DIRECTORY "${SHARDPROOF_INCLUDE_ROOT}")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}" "${SHARDPROOF_INCLUDE_ROOT}/shardproof" SYMBOLIC)

# A result must be the same bits whichever compiler built it, hence no contraction into fma. File
# names in messages are relative to the tree, so that they are the same on every machine.
set(SHARDPROOF_CXX_FLAGS
  -Wall -Wextra -Wpedantic
  -ffp-contract=off
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  -fmacro-prefix-map=${SHARDPROOF_INCLUDE_ROOT}/shardproof/=)
if(SHARDPROOF_WERROR)
  list(APPEND SHARDPROOF_CXX_FLAGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 sees an overlap in every `"literal" + std::string` it inlines (its bug 105651).
  list(APPEND SHARDPROOF_CXX_FLAGS -Wno-restrict)
endif()
if(SHARDPROOF_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Instrumented code hides from gcc what was initialized; the plain builds keep this warning.
  list(APPEND SHARDPROOF_CXX_FLAGS -Wno-maybe-uninitialized)
endif()
# nvcc takes its flags from the room that holds CUDA.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${SHARDPROOF_CXX_FLAGS}>")

if(SHARDPROOF_SANITIZE)
  add_compile_options(-fsanitize=${SHARDPROOF_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SHARDPROOF_SANITIZE})
endif()
if(SHARDPROOF_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SHARDPROOF_FUZZ needs clang (libFuzzer); use the preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
