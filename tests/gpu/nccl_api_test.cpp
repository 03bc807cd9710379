// Opening NCCL at run time: what is refused, and with which words.
#include "shardproof/backends/nccl/nccl_api.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

std::string refusal(const NcclPlaces& places) {
  try {
    load_nccl(places);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.message();
  }
  return "";
}

TEST(NcclApi, VersionsReadAsNcclWritesThem) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(21800), "2.18.0");
  EXPECT_EQ(nccl_version_text(23203), "2.32.3");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
}

TEST(NcclApi, WhatIsTooOldOrNoNcclIsRefusedByName) {
  EXPECT_EQ(refusal({OLD_NCCL, {}}), OLD_NCCL " is NCCL 2.16.5; 2.18.0 or newer is needed");
  EXPECT_EQ(refusal({PARTIAL_NCCL, {}}),
            PARTIAL_NCCL " (NCCL 2.28.9) has no ncclCommInitRankConfig");
  EXPECT_EQ(refusal({"libm.so.6", {}}), "libm.so.6 is no NCCL");
  const std::string absent = refusal({"/nowhere/libnccl.so.2", {}});
  EXPECT_EQ(absent.find("NCCL was not opened: /nowhere/libnccl.so.2: "), 0u) << absent;
}

TEST(NcclApi, FoldersAreLookedThroughInTheirOrder) {
  if (refusal({}).find("was not found") == std::string::npos)
    GTEST_SKIP() << "the system's own search finds an NCCL here";
  const fs::path folder =
      fs::path(testing::TempDir()) / ("shardproof_nccl_folder_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  EXPECT_NE(refusal({"", {folder.string()}}).find("nvidia-nccl-cu13"), std::string::npos);
  fs::create_symlink(OLD_NCCL, folder / "libnccl.so.2");
  EXPECT_NE(refusal({"", {"/nowhere", folder.string()}}).find("is NCCL 2.16.5"), std::string::npos);
  fs::remove_all(folder);
}

// With a real library, where there is one: no GPU is needed to open it and to make an id.
TEST(NcclApi, ARealLibraryFillsTheTable) {
  if (std::string(REAL_NCCL).empty()) GTEST_SKIP() << "no NCCL was found when this was configured";
  const NcclApi api = load_nccl({REAL_NCCL, {}});
  EXPECT_GE(api.version, 21800);
  NcclId first{}, second{};
  ASSERT_EQ(api.get_unique_id(&first), nccl::kSuccess);
  ASSERT_EQ(api.get_unique_id(&second), nccl::kSuccess);
  EXPECT_FALSE(std::equal(std::begin(first.bytes), std::end(first.bytes), second.bytes));
  EXPECT_EQ(std::string(api.error_text(nccl::kInvalidUsage)).find("invalid usage"), 0u);
  // What this version has is there, what it has not is null.
  EXPECT_EQ(api.put_signal != nullptr, api.version >= 22900);
  EXPECT_EQ(api.group_simulate_end != nullptr, api.version >= 22200);
}

}  // namespace
}  // namespace shardproof
