// Tests of opening NCCL at run time: which libraries are refused, and with which message; and of
// the environment variables that are set before.
#include "shardproof/backends/nccl/nccl_api.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "shardproof/backends/nccl/gpu_sharing.h"
#include "shardproof/backends/nccl/nccl_group.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

std::string refusal(const NcclSearchPaths& places) {
  try {
    load_nccl(places);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.message();
  }
  return "";
}

TEST(NcclApi, Versions_ReadAsNcclWritesThem) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(21800), "2.18.0");
  EXPECT_EQ(nccl_version_text(23203), "2.32.3");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
}

TEST(NcclApi, UnusableLibrary_IsRefusedByName) {
  EXPECT_EQ(refusal({OLD_NCCL, {}}), OLD_NCCL " is NCCL 2.16.5; 2.18.0 or newer is needed");
  EXPECT_EQ(refusal({PARTIAL_NCCL, {}}),
            PARTIAL_NCCL " (NCCL 2.28.9) has no ncclCommInitRankConfig");
  EXPECT_EQ(refusal({"libm.so.6", {}}), "libm.so.6 is not an NCCL library");
  const std::string absent = refusal({"/nowhere/libnccl.so.2", {}});
  EXPECT_EQ(absent.find("NCCL was not opened: /nowhere/libnccl.so.2: "), 0u) << absent;
}

// An older library that the system has does not hide a newer one in a folder.
TEST(NcclApi, Folders_AreSearchedInOrder) {
  const fs::path root =
      fs::path(testing::TempDir()) / ("shardproof_nccl_folder_" + std::to_string(getpid()));
  fs::remove_all(root);
  const std::string name = "libnccl-of-this-test.so.2";
  const auto add = [&](const char* folder, const char* library) {
    fs::create_directories(root / folder);
    fs::create_symlink(library, root / folder / name);
    return (root / folder).string();
  };
  EXPECT_NE(refusal({"", {root.string()}, name}).find("nvidia-nccl-cu13"), std::string::npos);
  const std::string old = add("old", OLD_NCCL), partial = add("partial", PARTIAL_NCCL);
  EXPECT_EQ(refusal({"", {"/nowhere", old, partial}, name}),
            fmt::format("{0}/{1} is NCCL 2.16.5; 2.18.0 or newer is needed; {2}/{1} (NCCL 2.28.9) "
                        "has no ncclCommInitRankConfig",
                        old, name, partial));
  if (!std::string(REAL_NCCL).empty()) {
    const std::string real = add("real", REAL_NCCL);
    EXPECT_EQ(load_nccl({"", {old, real}, name}).path, real + "/" + name);
  }
  fs::remove_all(root);
}

int open_groups = 0;

// An open group would hold back all later calls.
TEST(NcclApi, Group_LeftByException_Ends) {
  NcclApi api;
  api.group_start = [] { return ++open_groups, nccl::kSuccess; };
  api.group_end = [] { return --open_groups, nccl::kInProgress; };
  {
    NcclGroup group(api);
    EXPECT_EQ(open_groups, 1);
    EXPECT_EQ(group.end(), nccl::kInProgress);
    EXPECT_EQ(open_groups, 0);
  }
  EXPECT_EQ(open_groups, 0);
  const auto leave = [&] {
    const NcclGroup group(api);
    throw std::runtime_error("a call was refused");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(open_groups, 0);
}

WorkerPoolOptions of_processes(const std::string& coordinator) {
  WorkerPoolOptions pool;
  pool.processes = pool.ranks_per_gpu = 2;
  pool.join = coordinator;
  return pool;
}

TEST(NcclEnvironment, Sockets_OnOneMachine_UseLoopback) {
  const Environment loopback{{"NCCL_SOCKET_IFNAME", "=lo"}, {"NCCL_NET", "Socket"}};
  const auto preferred = [](const std::string& coordinator, GpuSharing sharing) {
    return nccl_preferences(of_processes(coordinator), sharing);
  };
  EXPECT_EQ(preferred("unix:here", GpuSharing::as_hosts), loopback);
  EXPECT_EQ(preferred("", GpuSharing::as_hosts), loopback);  // in the coordinator
  EXPECT_EQ(preferred("tcp:there,127.0.0.1:4242:secret", GpuSharing::as_hosts), Environment());
  EXPECT_EQ(preferred("unix:here", GpuSharing::by_nccl), Environment());
  EXPECT_EQ(preferred("unix:here", GpuSharing::none), Environment());
}

TEST(NcclEnvironment, UserVariables_AreKept) {
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "none" : text);
  };
  ::setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
  ::setenv("NCCL_COMM_BLOCKING", "0", 1);
  ::unsetenv("NCCL_NET");
  set_nccl_environment(of_processes("unix:here"), GpuSharing::as_hosts);
  EXPECT_EQ(value("NCCL_SOCKET_IFNAME"), "eth7");
  EXPECT_EQ(value("NCCL_NET"), "Socket");
  EXPECT_EQ(value("NCCL_COMM_BLOCKING"), "");
  EXPECT_EQ(value("NCCL_HOSTID"), "shardproof-0");
}

TEST(NcclApi, RealLibrary_FillsTable) {
  if (std::string(REAL_NCCL).empty()) GTEST_SKIP() << "no NCCL was found when this was configured";
  const NcclApi api = load_nccl({REAL_NCCL, {}});
  EXPECT_GE(api.version, 21800);
  NcclId first{}, second{};
  ASSERT_EQ(api.get_unique_id(&first), nccl::kSuccess);
  ASSERT_EQ(api.get_unique_id(&second), nccl::kSuccess);
  EXPECT_FALSE(std::equal(std::begin(first.bytes), std::end(first.bytes), second.bytes));
  EXPECT_EQ(std::string(api.error_text(nccl::kInvalidUsage)).find("invalid usage"), 0u);
  // Functions of this version are set, functions of later ones are null.
  EXPECT_EQ(api.put_signal != nullptr, api.version >= 22900);
  EXPECT_EQ(api.group_simulate_end != nullptr, api.version >= 22200);
}

}  // namespace
}  // namespace shardproof
