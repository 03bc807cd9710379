// Implements call_terms_store.h.
#include "shardproof/sim/call/call_terms_store.h"

#include <utility>

#include "shardproof/localtensor/base/memory_pool.h"

namespace shardproof {
namespace {

bool has_lists(const CallTerms& terms) {
  return !terms.peers.empty() || !terms.send_counts.empty() || !terms.recv_counts.empty() ||
         !terms.collective.send_counts.empty() || !terms.collective.recv_counts.empty();
}

// Copies of a text or of a group lie at one address.
bool same_text(std::string_view a, std::string_view b) {
  return a.data() == b.data() && a.size() == b.size();
}

// Compares terms without lists.
bool same_terms(const CallTerms& a, const CallTerms& b) {
  const Collective &x = a.collective, &y = b.collective;
  return x.kind == y.kind && x.dtype == y.dtype && x.count == y.count && x.root == y.root &&
         x.peer == y.peer && x.slot == y.slot && x.repeat == y.repeat &&
         x.group.is_copy_of(y.group) && x.reduction == y.reduction && x.schedule == y.schedule &&
         a.row_elements == b.row_elements && a.site.line == b.site.line &&
         same_text(a.site.text, b.site.text) && same_text(a.site.instance, b.site.instance);
}

std::shared_ptr<const CallTerms> stored(CallTerms&& terms) {
  return std::allocate_shared<const CallTerms>(PoolAllocator<CallTerms>(), std::move(terms));
}

}  // namespace

const std::shared_ptr<const CallTerms>& CallTermsStore::share(CallTerms&& terms) {
  if (has_lists(terms)) return with_lists_ = stored(std::move(terms));
  std::shared_ptr<const CallTerms>& held = held_[static_cast<size_t>(terms.site.line) % kHeld];
  if (held == nullptr || !same_terms(*held, terms)) held = stored(std::move(terms));
  return held;
}

}  // namespace shardproof
