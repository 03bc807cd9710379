// Implements launch_ptx.h. Each source file registers its fat binary before main; its PTX is read
// when a kernel of it is first launched or loaded.
#include "shardproof/tests/gpu/ptx/launch_ptx.h"

#include <cxxabi.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"
#include "shardproof/tests/gpu/ptx/memory_checks.h"
#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {
namespace {

// The layout of nvcc's fat binary: a header, then entries of code, each with a header of its own.
struct FatHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};
struct FatEntry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t packed_bytes, options, minor_and_major, architecture, name_offset, name_bytes;
  uint64_t flags, unused, unpacked_bytes;
};
struct FatWrapper {
  int magic, version;
  const std::byte* data;
  void* file;
};
constexpr uint16_t kPtx = 1;
constexpr uint64_t kPackedByZstd = 0x8000, kPackedOtherwise = 0x2000;

std::string text_of(const FatEntry& entry, const std::byte* data) {
  if ((entry.flags & kPackedOtherwise) != 0)
    throw Error(ErrorKind::unsupported, "PTX is packed by another means than zstd");
  if ((entry.flags & kPackedByZstd) == 0) return reinterpret_cast<const char*>(data);
  std::string text(entry.unpacked_bytes, '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), data, entry.packed_bytes);
  if (got != text.size()) throw Error(ErrorKind::io, "PTX cannot be unpacked");
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::string find_ptx(const std::byte* at) {
  FatHeader header{};
  std::memcpy(&header, at, sizeof(header));
  const std::byte* const end = at + header.header_bytes + header.bytes;
  for (at += header.header_bytes; at < end;) {
    FatEntry entry{};
    std::memcpy(&entry, at, sizeof(entry));
    if (entry.kind == kPtx) return text_of(entry, at + entry.header_bytes);
    at += entry.header_bytes + entry.bytes;
  }
  throw Error(ErrorKind::unsupported, "this program has no PTX for its kernels");
}

// The code of one source file; read on first use.
struct Source {
  const std::byte* fat = nullptr;
  std::optional<Module> module;
};

struct Kernel {
  Source* source;
  std::string name;
  const Function* function = nullptr;
  bool is_loaded = false;
};

struct CallShape {
  Extent blocks, threads;
  size_t shared;
  void* stream;
};

struct Program {
  std::mutex mutex;
  std::deque<Source> sources;
  std::map<const void*, Kernel> kernels;  // by the host's function

  static Program& all() {
    static Program program;  // before main: sources register themselves
    return program;
  }
};

thread_local std::vector<CallShape> shapes;

const Function& function_of(Kernel& kernel) {
  if (kernel.function != nullptr) return *kernel.function;
  Source& source = *kernel.source;
  if (!source.module) source.module.emplace(find_ptx(source.fat));
  kernel.function = source.module->find(kernel.name);
  if (kernel.function == nullptr)
    throw Error(ErrorKind::unsupported, "no kernel " + kernel.name + " in its PTX");
  return *kernel.function;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

using Argument = std::vector<std::max_align_t>;

bool is_within(const void* at, const Argument& argument) {
  return at >= argument.data() && at < argument.data() + argument.size();
}

// Copies the arguments at once: the caller's do not outlive the call.
int launch(const void* host, const CallShape& shape, void** arguments) {
  Program& program = Program::all();
  const std::lock_guard lock(program.mutex);
  SP_CHECK(shape.shared == 0, "{} bytes of shared memory", shape.shared);
  Kernel& kernel = program.kernels.at(host);
  const Function& function = function_of(kernel);
  const Module& module = *kernel.source->module;
  std::vector<Argument> copies;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const auto bytes = static_cast<size_t>(function.parameters[i].bytes);
    Argument& copy = copies.emplace_back(bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(copy.data(), arguments[i], bytes);
  }
  FakeGpu::enqueue(shape.stream, [&function, &module, shape, copies = std::move(copies)] {
    std::vector<const std::byte*> addresses;
    for (const Argument& copy : copies)
      addresses.push_back(reinterpret_cast<const std::byte*>(copy.data()));
    Watch watch(demangled(function.name), [&](const std::byte* at) -> Allocation {
      for (const Argument& copy : copies)
        if (is_within(at, copy)) return {copy.data(), copy.data() + copy.size()};
      const Allocation variable = module.variable_at(at);
      return variable.first != nullptr ? variable : FakeGpu::allocation_at(shape.stream, at);
    });
    run_threads(function, addresses, shape.blocks, shape.threads, &watch);
    return true;
  });
  return 0;
}

template <typename Wanted>
std::set<std::string> names_where(const Wanted& wanted) {
  Program& program = Program::all();
  const std::lock_guard lock(program.mutex);
  std::set<std::string> names;
  for (const auto& [host, kernel] : program.kernels)
    if (wanted(kernel)) names.insert(demangled(kernel.name));
  return names;
}

}  // namespace

std::set<std::string> all_kernels() {
  return names_where([](const Kernel&) { return true; });
}
std::set<std::string> launched_kernels() {
  return names_where([](const Kernel& kernel) { return kernel.function != nullptr; });
}

std::set<std::string> loaded_kernels() {
  return names_where([](const Kernel& kernel) { return kernel.is_loaded; });
}

}  // namespace shardproof::ptx

namespace shardproof {

DeviceKernels fake_kernels() { return cuda_kernels(); }

}  // namespace shardproof

using shardproof::ptx::CallShape;
using shardproof::ptx::Extent;
using shardproof::ptx::Program;

// The linker replaces the functions that these names end in (--wrap).
extern "C" {

void** __wrap___cudaRegisterFatBinary(void* wrapper) {
  auto& source = Program::all().sources.emplace_back();
  source.fat = static_cast<const shardproof::ptx::FatWrapper*>(wrapper)->data;
  return reinterpret_cast<void**>(&source);
}
void __wrap___cudaRegisterFatBinaryEnd(void**) {}
void __wrap___cudaUnregisterFatBinary(void**) {}

void __wrap___cudaRegisterFunction(void** source, const char* host, char*, const char* name, int,
                                   void*, void*, void*, void*, int*) {
  Program::all().kernels[host] = {reinterpret_cast<shardproof::ptx::Source*>(source), name};
}

unsigned __wrap___cudaPushCallConfiguration(Extent blocks, Extent threads, size_t shared,
                                            void* stream) {
  shardproof::ptx::shapes.push_back({blocks, threads, shared, stream});
  return 0;
}
int __wrap___cudaPopCallConfiguration(Extent* blocks, Extent* threads, size_t* shared,
                                      void* stream) {
  const CallShape shape = shardproof::ptx::shapes.back();
  shardproof::ptx::shapes.pop_back();
  *blocks = shape.blocks;
  *threads = shape.threads;
  *shared = shape.shared;
  *static_cast<void**>(stream) = shape.stream;
  return 0;
}

// CUDA 13 and newer: the handle of a kernel is the host's function here. Older versions have none.
int __wrap___cudaGetKernel(const void** kernel, const void* host) {
  *kernel = host;
  return 0;
}
int __wrap___cudaLaunchKernel(const void* kernel, Extent blocks, Extent threads, void** arguments,
                              size_t shared, void* stream) {
  return shardproof::ptx::launch(kernel, {blocks, threads, shared, stream}, arguments);
}
int __wrap_cudaLaunchKernel(const void* host, Extent blocks, Extent threads, void** arguments,
                            size_t shared, void* stream) {
  return shardproof::ptx::launch(host, {blocks, threads, shared, stream}, arguments);
}
// Loads a kernel, as the driver does on its first use.
int __wrap_cudaFuncGetAttributes(void*, const void* host) {
  Program& program = Program::all();
  const auto found = program.kernels.find(host);
  if (found == program.kernels.end()) return 98;  // cudaErrorInvalidDeviceFunction
  return found->second.is_loaded = true, 0;
}
int __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}

}  // extern "C"
