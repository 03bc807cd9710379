// Tests of finding NVIDIA's libraries in Python packages, and of the requests to cuBLASLt, on a
// fake library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "shardproof/backends/cuda/cublas.h"
#include "shardproof/backends/cuda/device.h"
#include "shardproof/cli/options/library_paths.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

TEST(Libraries, PythonPackages_AreFound) {
  const fs::path root =
      fs::path(testing::TempDir()) / ("shardproof_python_" + std::to_string(getpid()));
  const fs::path packages = root / "lib/python3.12/site-packages/nvidia";
  const char* const with_libraries[] = {"cu13", "cublas", "nccl"};
  for (const char* package : with_libraries) fs::create_directories(packages / package / "lib");
  fs::create_directories(packages / "nvtx");
  fs::create_directories(root / "bin");
  std::ofstream(root / "bin/python3") << "#!/bin/sh\n";
  ::setenv("PATH", (root / "bin").c_str(), 1);
  ::setenv("HOME", (root / "nobody").c_str(), 1);
  const std::vector<std::string> folders = library_folders();
  fs::remove_all(root);
  for (const char* package : with_libraries)
    EXPECT_EQ(std::count(folders.begin(), folders.end(), (packages / package / "lib").string()), 1)
        << package;
  EXPECT_EQ(std::count(folders.begin(), folders.end(), (packages / "nvtx/lib").string()), 0);
}

TEST(Libraries, VirtualEnvironment_IsFoundByLinkOrName) {
  const fs::path root =
      fs::path(testing::TempDir()) / ("shardproof_links_" + std::to_string(getpid()));
  for (const char* prefix : {"linked", "active"})
    fs::create_directories(root / prefix / "lib/python3.12/site-packages/nvidia/nccl/lib");
  for (const char* folder : {"bin", "linked/bin", "system/bin"})
    fs::create_directories(root / folder);
  std::ofstream(root / "system/bin/python3.12") << "#!/bin/sh\n";
  fs::create_symlink("../../system/bin/python3.12", root / "linked/bin/python3");
  fs::create_symlink(root / "linked/bin/python3", root / "bin/python3");
  ::setenv("PATH", (root / "bin").c_str(), 1);
  ::setenv("HOME", (root / "nobody").c_str(), 1);
  ::setenv("VIRTUAL_ENV", (root / "active").c_str(), 1);
  const std::vector<std::string> folders = library_folders();
  ::unsetenv("VIRTUAL_ENV");
  fs::remove_all(root);
  for (const char* prefix : {"linked", "active"})
    EXPECT_EQ(std::count(folders.begin(), folders.end(),
                         (root / prefix / "lib/python3.12/site-packages/nvidia/nccl/lib").string()),
              1)
        << prefix;
}

TEST(Libraries, Cublas_IsSearchedInFolders) {
  const std::vector<std::string> paths = cublas_paths({"/python/nvidia/cu13/lib"});
  ASSERT_GE(paths.size(), 2u);
  EXPECT_EQ(paths.front().find('/'), std::string::npos);  // found by the system's search path
  EXPECT_EQ(paths.back(), "/python/nvidia/cu13/lib/" + paths.front());
}

// Values of cublasLtMatmulPreferenceAttributes_t and of cublasLtReductionScheme_t.
constexpr int kReductionSchemes = 3;
constexpr uint64_t kInPlace = 1, kInComputeType = 2;

// Partial sums that are added in place are rounded to the type of the result each time.
TEST(Cublas, PartialSums_AreNotRoundedToNarrowType) {
  const FakeGpu machine;
  const std::shared_ptr<Device> device = open_device(machine.api(), 0);
  const std::shared_ptr<Gemm> gemm =
      open_cublas({"/nowhere/libcublasLt.so", LOGGING_CUBLAS}, MatmulPrecision::highest);
  void* const library = ::dlopen(LOGGING_CUBLAS, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto preferred =
      reinterpret_cast<uint64_t (*)(int)>(::dlsym(library, "what_was_preferred"));
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    GemmCall call;
    call.rows = call.columns = call.depth = call.leading = 8;
    call.a.leading = call.b.leading = 8;
    call.dtype = dtype;
    call.compute = dtype == DType::f64 ? DType::f64 : DType::f32;
    ASSERT_TRUE(gemm->multiply(call, *device, device->native_stream()));
    const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
    EXPECT_EQ(preferred(kReductionSchemes), narrow ? kInComputeType : kInPlace | kInComputeType)
        << name(dtype);
  }
  ::dlclose(library);
}

// Values of cublasComputeType_t and of cudaDataType_t.
constexpr int kCompute32F = 68, kCompute32FFastTf32 = 77, kR32F = 0, kR16F = 2, kR8FE4M3 = 28;

TEST(Cublas, Precision_IsUsed_AndSumsAreLeft) {
  const FakeGpu machine;
  const std::shared_ptr<Device> device = open_device(machine.api(), 0);
  void* const library = ::dlopen(LOGGING_CUBLAS, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto recorded = [&](const char* what) {
    return reinterpret_cast<int (*)()>(::dlsym(library, what))();
  };
  GemmCall call;
  call.rows = call.columns = call.depth = call.leading = 16;
  call.a.leading = call.b.leading = 16;
  for (const MatmulPrecision precision : {MatmulPrecision::highest, MatmulPrecision::high}) {
    const std::shared_ptr<Gemm> gemm = open_cublas({LOGGING_CUBLAS}, precision);
    ASSERT_TRUE(gemm->open());
    call.dtype = DType::f32;
    call.leaves_sums = false;
    ASSERT_TRUE(gemm->multiply(call, *device, device->native_stream()));
    EXPECT_EQ(recorded("what_was_computed"),
              precision == MatmulPrecision::high ? kCompute32FFastTf32 : kCompute32F);
    call.dtype = DType::f8e4m3;
    call.leaves_sums = true;
    ASSERT_TRUE(gemm->multiply(call, *device, device->native_stream()));
    EXPECT_EQ(recorded("what_was_computed"), kCompute32F);
    EXPECT_EQ(recorded("type_of_the_first_matrix"), kR8FE4M3);
    EXPECT_EQ(recorded("type_of_the_last_matrix"), kR32F);
    call.dtype = DType::f16;
    ASSERT_TRUE(gemm->multiply(call, *device, device->native_stream()));
    EXPECT_EQ(recorded("type_of_the_last_matrix"), kR32F);
    call.leaves_sums = false;
    ASSERT_TRUE(gemm->multiply(call, *device, device->native_stream()));
    EXPECT_EQ(recorded("type_of_the_last_matrix"), kR16F);
  }
  ::dlclose(library);
}

// No attribute of cuBLASLt states the alignment of a bias, which its kernels may read 16 bytes at a
// time.
TEST(Cublas, Bias_MustBeAligned) {
  const FakeGpu machine;
  const std::shared_ptr<Device> device = open_device(machine.api(), 0);
  const std::shared_ptr<Gemm> gemm = open_cublas({LOGGING_CUBLAS}, {});
  GemmCall call;
  call.rows = call.columns = call.depth = call.leading = 8;
  call.a.leading = call.b.leading = 8;
  std::byte* const memory = device->allocate(256);
  for (const int offset : {0, 2, 4, 8, 16}) {
    call.bias = memory + offset;
    EXPECT_EQ(gemm->multiply(call, *device, device->native_stream()), offset % 16 == 0) << offset;
  }
  device->release(memory, 256);
}

TEST(Cublas, MissingLibrary_RefusesEverything) {
  const FakeGpu machine;
  const std::shared_ptr<Device> device = open_device(machine.api(), 0);
  const std::shared_ptr<Gemm> gemm = open_cublas({"/nowhere/libcublasLt.so"}, {});
  EXPECT_FALSE(gemm->open());
  EXPECT_FALSE(gemm->multiply(GemmCall(), *device, device->native_stream()));
}

}  // namespace
}  // namespace shardproof
