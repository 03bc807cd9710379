// An interpreter for PTX, the code that nvcc makes of kernels (NVIDIA, Parallel Thread Execution
// ISA). A function has slots of 64 bits for registers, constants and addresses, and a list of steps
// over them. Reading a function throws Error for instructions that our kernels do not use. Threads
// never synchronize, so there are no barriers, no shared memory and no atomics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardproof::ptx {

class Watch;  // memory_checks.h
struct Step;
using Apply = void (*)(const Step&, uint64_t* slots);

enum class StepKind : uint8_t { apply, read, write, jump, call, leave };

struct Step {
  StepKind kind = StepKind::apply;
  bool guarded = false, unless = false;  // runs only if the guard is true; only if it is false
  uint8_t address = 0, bytes = 0;        // access to memory: index into `at`, and bytes
  uint32_t guard = 0;
  Apply apply = nullptr;
  std::array<uint32_t, 6> at{};  // slots of operands, results first
  int64_t offset = 0;            // added to an address
  uint32_t target = 0;           // jump: index of a step; call: index of the function's call
};

// The first slots of every function.
inline constexpr uint32_t kCarry = 0, kThread = 1, kThreads = 4, kBlock = 7, kBlocks = 10;
inline constexpr uint32_t kFirstFreeSlot = 13;  // after x, y and z of each of them

struct Function;

struct Call {
  const Function* function;
  std::vector<uint32_t> results, arguments;  // slots that hold addresses
};

// Memory of a function's own, whose address is in `slot`.
struct Room {
  uint32_t slot;
  int64_t offset;
};

struct Parameter {
  std::string name;
  int64_t bytes;
};

struct Function {
  std::string name;
  std::vector<Parameter> results, parameters;  // their addresses: slots from kFirstFreeSlot on
  std::vector<uint64_t> initial;               // contents of the slots at the start
  std::vector<Room> rooms;
  int64_t room_bytes = 0;
  std::vector<Step> steps;
  std::vector<Call> calls;

  std::string_view body;  // text; empty once it is decoded
};

// The functions and variables of one source file.
class Module {
 public:
  explicit Module(std::string text);  // throws Error if it is not PTX
  // Returns a function, decoded on first use; null if it is not here. Throws Error for an unknown
  // instruction.
  const Function* find(const std::string& name);
  uint64_t variable(const std::string& name) const;  // its address; 0: not here
  // Returns start and end of the variable that holds an address; nulls: none does.
  std::pair<const void*, const void*> variable_at(const void* address) const;

 private:
  void read_function(std::string_view header, std::string_view body);
  void read_variable(std::string_view statement);

  std::string text_;
  std::map<std::string, Function, std::less<>> functions_;
  std::map<std::string, std::vector<uint64_t>, std::less<>> variables_;
};

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
};

// Runs a kernel's threads one after the other, in an order that no kernel should depend on.
// `arguments` are addresses, as many as the kernel has parameters. `watch` may be null.
void run_threads(const Function& kernel, const std::vector<const std::byte*>& arguments,
                 const Extent& blocks, const Extent& threads, Watch* watch);

}  // namespace shardproof::ptx
