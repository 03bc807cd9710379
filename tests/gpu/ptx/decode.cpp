// Implements decode.h. One pass over the statements: declarations get slots, instructions become
// steps, labels become targets.
#include "shardproof/tests/gpu/ptx/decode.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/ptx/instructions.h"
#include "shardproof/tests/gpu/ptx/statements.h"

namespace shardproof::ptx {
namespace {

class Decoder {
 public:
  Decoder(Function& function, Module& module) : function_(function), module_(module) {
    function_.initial.assign(kFirstFreeSlot, 0);
    scopes_.emplace_back();
    for (const char* axis : {"x", "y", "z"}) {
      name(fmt::format("%tid.{}", axis), kThread);
      name(fmt::format("%ntid.{}", axis), kThreads);
      name(fmt::format("%ctaid.{}", axis), kBlock);
      name(fmt::format("%nctaid.{}", axis), kBlocks);
    }
    for (const auto* list : {&function_.results, &function_.parameters})
      for (const Parameter& parameter : *list) scopes_.back()[parameter.name] = new_slot(0);
  }

  void read(std::string_view body) {
    while (!(body = trimmed(body)).empty()) {
      if (body[0] == '{' || body[0] == '}') {
        if (body[0] == '{') scopes_.emplace_back();
        if (body[0] == '}') scopes_.pop_back();
        body.remove_prefix(1);
        continue;
      }
      const size_t end = body.find_first_of(";:");
      if (end == std::string_view::npos) throw_bad_input("PTX ends in \"{}\"", body);
      const std::string_view statement = body.substr(0, end);
      if (body[end] == ':')
        labels_[std::string(statement)] = static_cast<uint32_t>(function_.steps.size());
      else
        read_statement(trimmed(statement));
      body.remove_prefix(end + 1);
    }
    function_.steps.emplace_back().kind = StepKind::leave;
    for (const auto& [step, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw_bad_input("no label {} in {}", label, function_.name);
      function_.steps[step].target = found->second;
    }
  }

 private:
  void name(const std::string& text, uint32_t first) {
    scopes_.back()[text] = first + static_cast<uint32_t>(text.back() - 'x');
  }
  uint32_t new_slot(uint64_t value) {
    function_.initial.push_back(value);
    return static_cast<uint32_t>(function_.initial.size() - 1);
  }

  void read_statement(std::string_view text) {
    if (text.starts_with(".reg")) return declare_registers(text);
    if (text.starts_with(".local") || text.starts_with(".param")) return declare_room(text);
    if (text.starts_with(".pragma") || text.starts_with(".loc")) return;
    Step step;
    std::string_view rest = text;
    if (rest[0] == '@') {
      const size_t end = rest.find_first_of(" \t");
      std::string_view guard = rest.substr(1, end - 1);
      step.guarded = true;
      step.unless = guard.starts_with("!");
      if (step.unless) guard.remove_prefix(1);
      step.guard = slot_of(guard);
      rest = trimmed(rest.substr(end));
    }
    const size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
    const std::string opcode(rest.substr(0, end));
    if (!read_instruction(step, opcode, operands_of(rest.substr(end))))
      throw_bad_input("an instruction that is not known here: {}", text);
    function_.steps.push_back(step);
  }

  // Forms: ".reg .b64 %rd<51>", ".reg .u32 lo, hi".
  void declare_registers(std::string_view text) {
    const std::vector<std::string_view> words = split(text, " \t\n,");
    for (size_t i = 2; i < words.size(); ++i) {
      const size_t open = words[i].find('<');
      if (open == std::string_view::npos) {
        scopes_.back()[std::string(words[i])] = new_slot(0);
        continue;
      }
      const int64_t count = number_of(split(words[i].substr(open), "<>")[0]);
      for (int64_t r = 0; r < count; ++r)
        scopes_.back()[fmt::format("{}{}", words[i].substr(0, open), r)] = new_slot(0);
    }
  }

  // Forms: ".local .align 16 .b8 __local_depot0[64]", ".param .b64 param0".
  void declare_room(std::string_view text) {
    const std::vector<std::string_view> words = split(text, " \t\n[]");
    const bool is_array = text.find('[') != std::string_view::npos;
    const int64_t count = is_array ? number_of(words.back()) : 8;
    const uint32_t slot = new_slot(0);
    scopes_.back()[std::string(words[words.size() - (is_array ? 2 : 1)])] = slot;
    function_.rooms.push_back({slot, function_.room_bytes});
    function_.room_bytes += (count + 15) / 16 * 16;
  }

  // An operand: a register, a constant, or the address of memory, a parameter or a variable.
  uint32_t slot_of(std::string_view text) {
    const std::string key(text);
    for (size_t i = scopes_.size(); i-- > 0;)
      if (const auto found = scopes_[i].find(key); found != scopes_[i].end()) return found->second;
    uint64_t value = module_.variable(key);
    if (value == 0) {
      if (!is_number(text)) throw_bad_input("{} is not declared in {}", text, function_.name);
      value = static_cast<uint64_t>(number_of(text));
    }
    return scopes_.front()[key] = new_slot(value);
  }

  bool read_instruction(Step& step, const std::string& opcode,
                        const std::vector<std::string_view>& operands) {
    if (opcode == "ret" || opcode == "exit") {
      step.kind = StepKind::leave;
      return true;
    }
    if (opcode == "bra" || opcode == "bra.uni") {
      step.kind = StepKind::jump;
      jumps_.emplace_back(function_.steps.size(), operands.at(0));
      return true;
    }
    if (opcode == "call" || opcode == "call.uni") return read_call(step, operands);
    if (opcode.starts_with("ld.") || opcode.starts_with("st."))
      return read_memory(step, opcode, operands);
    if (opcode.starts_with("mov.b") && read_packing(step, opcode, operands)) return true;
    step.apply = arithmetic(opcode);
    if (step.apply == nullptr || operands.size() > step.at.size()) return false;
    for (size_t i = 0; i < operands.size(); ++i) step.at[i] = slot_of(operands[i]);
    return true;
  }

  std::vector<uint32_t> listed(std::string_view list) {
    std::vector<uint32_t> slots;
    for (const std::string_view item : split(list, "(){}, \t\n")) slots.push_back(slot_of(item));
    return slots;
  }

  // Form: "(retval0), name, (param0, param1)", without results or arguments if there are none.
  bool read_call(Step& step, const std::vector<std::string_view>& operands) {
    Call call{};
    std::string callee;
    for (const std::string_view operand : operands) {
      if (operand[0] != '(')
        callee = operand;
      else
        (callee.empty() ? call.results : call.arguments) = listed(operand);
    }
    call.function = module_.find(callee);
    if (call.function == nullptr) return false;
    step.kind = StepKind::call;
    step.target = static_cast<uint32_t>(function_.calls.size());
    function_.calls.push_back(std::move(call));
    return true;
  }

  // Forms: "ld.global.nc.v2.f64 {%a, %b}, [%rd1+16]", "st.param.b64 [param0], %rd1".
  bool read_memory(Step& step, const std::string& opcode,
                   const std::vector<std::string_view>& operands) {
    const bool loads = opcode[0] == 'l';
    int elements = 1;
    bool is_own = false;  // memory of this thread only
    std::string type;
    for (const std::string_view part : split(std::string_view(opcode).substr(3), ".")) {
      if (part == "v2" || part == "v4")
        elements = part == "v2" ? 2 : 4;
      else if (part == "shared" || part == "volatile" || part == "acquire" || part == "release")
        return false;
      else if (part == "param" || part == "local")
        is_own = true;
      else
        type = part;
    }
    step.apply = loads ? load(type, elements) : store(type, elements);
    if (step.apply == nullptr || operands.size() != 2) return false;
    const std::vector<uint32_t> values = listed(operands[loads ? 0 : 1]);
    if (values.size() != static_cast<size_t>(elements)) return false;
    std::copy(values.begin(), values.end(), step.at.begin());
    const std::vector<std::string_view> address = split(operands[loads ? 1 : 0], "[+] ");
    step.at[values.size()] = slot_of(address.at(0));
    if (address.size() > 1) step.offset = number_of(address[1]);
    if (!is_own) step.kind = loads ? StepKind::read : StepKind::write;
    step.address = static_cast<uint8_t>(elements);
    step.bytes = static_cast<uint8_t>(elements * bytes_of_type(type));
    return true;
  }

  bool read_packing(Step& step, const std::string& opcode,
                    const std::vector<std::string_view>& operands) {
    const bool unpacks = operands.at(0)[0] == '{';
    if (!unpacks && operands.at(1)[0] != '{') return false;
    const std::vector<uint32_t> wide = listed(operands[unpacks ? 1 : 0]);
    const std::vector<uint32_t> parts = listed(operands[unpacks ? 0 : 1]);
    const int count = static_cast<int>(parts.size());
    const int bits = static_cast<int>(number_of(opcode.substr(5))) / count;
    step.apply = unpacks ? unpack(bits, count) : pack(bits, count);
    if (step.apply == nullptr) return false;
    const auto after = std::copy(unpacks ? parts.begin() : wide.begin(),
                                 unpacks ? parts.end() : wide.end(), step.at.begin());
    std::copy(unpacks ? wide.begin() : parts.begin(), unpacks ? wide.end() : parts.end(), after);
    return true;
  }

  Function& function_;
  Module& module_;
  std::vector<std::map<std::string, uint32_t, std::less<>>> scopes_;
  std::map<std::string, uint32_t, std::less<>> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;
};

}  // namespace

void decode(Function& function, std::string_view body, Module& module) {
  Decoder(function, module).read(body);
}

}  // namespace shardproof::ptx
