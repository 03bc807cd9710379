# Every outside library, in one place. Which room may link which is the house's rule:
# fmt in localtensor, Boost.Fiber in sim, Eigen in ops, nlohmann-json in scenarios, Boost.Program_options in cli.

option(SHARDPROOF_CARRIED "Programs that run on machines without Boost, fmt and this compiler" OFF)
set(SHARDPROOF_FMT fmt::fmt)
if(SHARDPROOF_CARRIED)
  set(Boost_USE_STATIC_LIBS ON)
  set(SHARDPROOF_FMT fmt::fmt-header-only)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS fiber context program_options)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
if(SHARDPROOF_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SHARDPROOF_BENCH)
  # Without them the benchmarks that need them are left out, with a line that says so.
  find_package(benchmark QUIET)
  find_package(SimGrid QUIET)
endif()

# Backends that may be absent. The answers are SHARDPROOF_HAVE_MPI, SHARDPROOF_HAVE_CUDA and
# SHARDPROOF_HAVE_NCCL, ON or OFF; the rooms backends and ops list one file or another by them, and
# no source asks.
set(SHARDPROOF_MPI AUTO CACHE STRING "The mpi backend: AUTO (when found), ON or OFF")
set(SHARDPROOF_CUDA AUTO CACHE STRING "CUDA kernels and the nccl backend: AUTO (when found), ON or OFF")

set(SHARDPROOF_HAVE_MPI OFF)
if(SHARDPROOF_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(SHARDPROOF_HAVE_MPI ON)
  elseif(NOT SHARDPROOF_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "SHARDPROOF_MPI is ON, but no MPI was found")
  endif()
endif()

set(SHARDPROOF_HAVE_CUDA OFF)
set(SHARDPROOF_HAVE_NCCL OFF)
set(SHARDPROOF_HAVE_CUBLAS OFF)
if(SHARDPROOF_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(SHARDPROOF_HAVE_CUDA ON)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    # The oldest stands first.
    list(GET CMAKE_CUDA_ARCHITECTURES 0 SHARDPROOF_OLDEST_CAPABILITY)
    string(REGEX MATCH "^[0-9]+" SHARDPROOF_OLDEST_CAPABILITY "${SHARDPROOF_OLDEST_CAPABILITY}")
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # nvcc speaks C++20 since 12; CMake 3.25 has not heard of it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # Functors are constexpr templates on std, without device marks.
    string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr")
    # Code of kernels is optimized in any case; this is of what launches them.
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1")
    # Kernels ask for nothing that only newer GPUs have: compiled once, for the oldest, and assembled
    # for each. (Names such as 90a are left to CMake.)
    set(architectures ${CMAKE_CUDA_ARCHITECTURES})
    if("${architectures}" MATCHES "^[0-9]+(;[0-9]+)*$")
      list(TRANSFORM architectures PREPEND "sm_")
      list(JOIN architectures "," architectures)
      set(oldest compute_${SHARDPROOF_OLDEST_CAPABILITY})
      string(APPEND CMAKE_CUDA_FLAGS
             " --generate-code=arch=${oldest},code=[${oldest},${architectures}]")
      set(CMAKE_CUDA_ARCHITECTURES OFF)
    endif()
    # cuBLASLt is opened when the program runs; its header gives types only.
    find_path(SHARDPROOF_CUBLAS_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(SHARDPROOF_CUBLAS_INCLUDE)
      set(SHARDPROOF_HAVE_CUBLAS ON)
    endif()
    # Code for GPUs lies in a program packed by zstd; tests unpack it.
    find_library(SHARDPROOF_ZSTD zstd)
    # NCCL is opened when the program runs. Its header, where there is one, proves that our table of
    # its functions is right; its library is for the tests. NCCL_ROOT names where both lie.
    find_path(SHARDPROOF_NCCL_INCLUDE nccl.h
              HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
    find_file(SHARDPROOF_NCCL_LIBRARY libnccl.so.2
              HINTS ${NCCL_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATHS /usr/lib/x86_64-linux-gnu
              PATH_SUFFIXES lib)
    if(SHARDPROOF_NCCL_INCLUDE)
      set(SHARDPROOF_HAVE_NCCL ON)
    endif()
  elseif(NOT SHARDPROOF_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SHARDPROOF_CUDA is ON, but no CUDA compiler and toolkit were found")
  endif()
endif()
message(STATUS "backends: mpi ${SHARDPROOF_HAVE_MPI}, cuda ${SHARDPROOF_HAVE_CUDA}, "
               "nccl.h ${SHARDPROOF_HAVE_NCCL}")
