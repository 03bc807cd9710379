# Finds every outside library. Each library belongs to one room, which tests/tidy checks: fmt to
# localtensor, Boost.Fiber to sim, Eigen and Boost.Math to ops, nlohmann-json to scenarios,
# Boost.Program_options to cli.

option(SHARDPROOF_CARRIED "Link programs for machines without Boost, fmt and this compiler" OFF)
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
  # Benchmarks whose library is absent are left out; CMake prints a line for each.
  find_package(benchmark QUIET)
  find_package(SimGrid QUIET)
endif()

# Backends that may be absent. The results are SHARDPROOF_HAVE_MPI, SHARDPROOF_HAVE_CUDA and
# SHARDPROOF_HAVE_NCCL, ON or OFF. The rooms backends and ops list one source or another by them; no
# source has a conditional on a backend.
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

# Returns the compute capability of this machine's first GPU (90 for 9.0), or `otherwise` if the
# machine has none or nvcc does not support it.
function(shardproof_capability_of_gpu out otherwise)
  set(${out} ${otherwise} PARENT_SCOPE)
  find_program(SHARDPROOF_NVIDIA_SMI nvidia-smi)
  if(SHARDPROOF_NVIDIA_SMI)
    execute_process(COMMAND "${SHARDPROOF_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE answer ERROR_QUIET)
    if(answer MATCHES "^([0-9]+)\\.([0-9])")
      set(capability "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
      execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known
                      ERROR_QUIET)
      if(known MATCHES "sm_${capability}\n")
        set(${out} ${capability} PARENT_SCOPE)
      endif()
    endif()
  endif()
endfunction()

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
      shardproof_capability_of_gpu(CMAKE_CUDA_ARCHITECTURES 90)
      message(STATUS "CUDA code for compute capability ${CMAKE_CUDA_ARCHITECTURES}")
    endif()
    # PTX for the oldest: the driver compiles it for a GPU whose code the program does not hold.
    set(SHARDPROOF_OLDEST_CAPABILITY 80)
    foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
      string(REGEX MATCH "^[0-9]+" capability "${architecture}")
      if(capability AND capability LESS SHARDPROOF_OLDEST_CAPABILITY)
        set(SHARDPROOF_OLDEST_CAPABILITY ${capability})
      endif()
    endforeach()
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # nvcc compiles C++20 since version 12; CMake 3.25 does not list it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # Functors are constexpr templates that call std, without __device__.
    string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr")
    # The level of host code. nvcc optimizes kernels in any case.
    set(CMAKE_CUDA_FLAGS_RELEASE "-O1")
    # Kernels use no instruction that only newer GPUs have: nvcc compiles them once, for the oldest,
    # and assembles them for each. (CMake handles names such as 90a.)
    set(architectures ${CMAKE_CUDA_ARCHITECTURES})
    if("${architectures}" MATCHES "^[0-9]+(;[0-9]+)*$")
      list(LENGTH architectures count)
      list(TRANSFORM architectures PREPEND "sm_")
      list(JOIN architectures "," architectures)
      set(oldest compute_${SHARDPROOF_OLDEST_CAPABILITY})
      string(APPEND CMAKE_CUDA_FLAGS
             " --generate-code=arch=${oldest},code=[${oldest},${architectures}]"
             " --threads=${count}")
      set(CMAKE_CUDA_ARCHITECTURES OFF)
    endif()
    # The program opens cuBLASLt when it runs; the header gives types only.
    find_path(SHARDPROOF_CUBLAS_INCLUDE cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(SHARDPROOF_CUBLAS_INCLUDE)
      set(SHARDPROOF_HAVE_CUBLAS ON)
    endif()
    # nvcc packs device code in a program by zstd; tests unpack it.
    find_library(SHARDPROOF_ZSTD zstd)
    # The program opens NCCL when it runs. If its header is found, the build checks our table of its
    # functions against it; tests use its library. NCCL_ROOT names the folder of both.
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
