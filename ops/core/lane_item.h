// LaneItem: one item of a lane's work as plain data, from which a device kernel is made
// (ops/cuda/item_kernels.cu).
//
// The list of items is closed. A new item that shall run on devices adds its type here.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <variant>

namespace shardproof {

template <typename T>
struct AttentionGradItem;  // attention/attention_item.h
template <typename T>
struct AttentionItem;  // attention/attention_item.h
template <typename T>
struct CrossEntropyGradItem;  // loss/loss_grad_item.h
template <typename T>
struct LabelGradItem;  // loss/loss_grad_item.h
template <typename T>
struct LossItem;  // loss/loss_item.h
template <typename T>
struct NormGradItem;  // norm/norm_grad_item.h
template <typename T>
struct NormItem;  // norm/layer_norm_item.h
template <typename T>
struct RopeItem;  // attention/rope_item.h
template <typename T>
struct RunningItem;  // row/cumulative_item.h
template <typename T>
struct SquareItem;        // loss/loss_item.h
struct DrawItem;          // random/random_items.h
struct DropoutItem;       // random/random_items.h
struct OneHotItem;        // index/index_items.h
struct ScatterAlongItem;  // index/scatter_item.h
struct TakeAlongItem;     // index/index_items.h
struct TakeRowsItem;      // index/index_items.h

template <typename... Items>
using OneOfItems = std::variant<std::monostate, std::shared_ptr<const Items>...>;

// The monostate means: the items run on the host only.
using LaneItem =
    OneOfItems<AttentionGradItem<float>, AttentionGradItem<double>, AttentionItem<float>,
               AttentionItem<double>, CrossEntropyGradItem<float>, CrossEntropyGradItem<double>,
               DrawItem, DropoutItem, LabelGradItem<float>, LabelGradItem<double>, LossItem<float>,
               LossItem<double>, NormGradItem<float>, NormGradItem<double>, NormItem<float>,
               NormItem<double>, OneHotItem, RopeItem<float>, RopeItem<double>, RunningItem<float>,
               RunningItem<double>, RunningItem<int64_t>, ScatterAlongItem, SquareItem<float>,
               SquareItem<double>, TakeAlongItem, TakeRowsItem>;

// Returns the item, shared by the copies of its plan; the monostate if its type is not listed.
template <typename Item>
LaneItem share_item(const Item& item) {
  if constexpr (std::constructible_from<LaneItem, std::shared_ptr<const Item>>)
    return std::make_shared<const Item>(item);
  else
    return {};
}

inline bool runs_on_devices(const LaneItem& item) { return item.index() != 0; }

}  // namespace shardproof
