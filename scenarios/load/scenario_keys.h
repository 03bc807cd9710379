// Keys of the objects of a scenario file. schemas/scenario.json lists the same keys.
#pragma once

#include <string_view>
#include <vector>

namespace shardproof {

const std::vector<std::string_view>& root_keys();
const std::vector<std::string_view>& phase_keys();
const std::vector<std::string_view>& tensor_keys();
const std::vector<std::string_view>& train_keys();
const std::vector<std::string_view>& expect_keys();

}  // namespace shardproof
