// Tests `run --record` and `compare`: full disks, incomplete records, changed values. Each test
// runs the binary.
#include "shardproof/tests/cli/record_fixture.h"

namespace shardproof::record_run_test {
namespace {

TEST_F(RecordRun, Run_EqualsItself) {
  record("a");
  for (const std::string& other : {path("a"), path("a") + "/"}) {
    const Ran ran = tool("compare " + path("a") + " " + other);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("5 values: 5 bit-equal"), std::string::npos) << ran.out;
  }
}

TEST_F(RecordRun, TwoRuns_WriteEqualFiles_AndCanBeMoved) {
  record("a");
  record("b");
  for (const char* file :
       {"run.json", "flight.txt", "values.safetensors", "rounding.safetensors", "program.txt"})
    EXPECT_EQ(read(run_folder("a") / file), read(run_folder("b") / file)) << file;
  fs::rename(path("b"), path("moved"));
  EXPECT_EQ(tool("compare " + path("a") + " " + path("moved")).code, 0);
}

TEST_F(RecordRun, ChangedValue_IsFoundWithIndexAndOwners) {
  record("a");
  record("b");
  const fs::path file = run_folder("b") / "values.safetensors";
  std::string text = read(file);
  const size_t header = static_cast<unsigned char>(text[0]) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(text[1]));
  const std::string names = text.substr(8, header);
  const size_t h = names.find("\"h\"");
  const size_t first = std::stoul(names.substr(names.find('[', names.find("data_offsets", h)) + 1));
  text[8 + header + first + (9 * 32 + 17) * 4 + 3] ^= 0x40;  // the exponent of h[9, 17]
  std::ofstream(file, std::ios::binary) << text;
  const Ran ran = tool("compare " + path("a") + " " + path("b") + " --json " + path("out.json"));
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find("h[9, 17] on rank 6: wrong, "), std::string::npos) << ran.out;
  const std::string json = read(path("out.json"));
  for (const char* key :
       {"\"owners\": \"6\"", "\"rounding\": ", "\"rounding_factor\": ", "\"ulps\": "})
    EXPECT_NE(json.find(key), std::string::npos) << key;
}

TEST_F(RecordRun, IncompleteRecord_IsRefusedInOneLine) {
  record("a");
  const std::string a = path("a");
  expect_refused(tool("compare"), "expected one or two recorded runs");
  expect_refused(tool("compare " + a), "expected two records");
  expect_refused(tool("compare " + a + " " + path("none")), "no such folder");
  expect_refused(tool("compare " + a + " " + path("mlp.json")), "expected the folder of a record");
  expect_refused(tool("compare " + path("") + " " + a), "expected a recorded run");
  expect_refused(tool("compare " + a + " " + a + " --backend mpi"), "no run on \"mpi\"");
  expect_refused(tool("compare " + a + " " + a + " --case none"), "no case in common");
  record("seeded", "--seed 1");
  expect_refused(tool("compare " + a + " " + path("seeded")), "seed 0 and 1");
  fs::resize_file(run_folder("a") / "values.safetensors", 100);
  expect_refused(tool("compare " + a + " " + a), "the record is incomplete");
}

TEST_F(RecordRun, AnotherProgram_IsRefused) {
  record("a");
  std::string text = read(path("mlp.json"));
  text.replace(text.find("gelu"), 4, "relu");
  std::ofstream(path("mlp.json")) << text;
  record("b");
  expect_refused(tool("compare " + path("a") + " " + path("b")), "different lines of the program");
}

TEST_F(RecordRun, OtherContents_AreRefused) {
  record("a");
  std::string text = read(path("mlp.json"));
  text.replace(text.rfind("normal(0, 1)"), 12, "normal(0, 2)");
  std::ofstream(path("mlp.json")) << text;
  record("b");
  expect_refused(tool("compare " + path("a") + " " + path("b")), "different contents of w2");
}

// The fault is on a rank that only one of the meshes has.
TEST_F(RecordRun, CaseRefusedInOneRun_IsListed) {
  const std::string start = R"json({"version": 1,
    "tensors": {"x": {"shape": [8], "placements": "dp:S(0)"}}, "program": ["y = redistribute(x, R)"],
    )json";
  std::ofstream(path("mlp.json")) << start + R"json("sweep": {"mesh": ["dp=2", "dp=4"]}})json";
  record("a");
  std::ofstream(path("mlp.json")) << start + R"json("faults": ["skip(rank=3, call=9)"],
    "sweep": [{"mesh": "dp=2", "expect": {"verdict": "bad input"}}, {"mesh": "dp=4"}]})json";
  record("b");
  for (const char* sides : {"ab", "ba"}) {
    const Ran ran = tool("compare " + path({sides[0]}) + " " + path({sides[1]}));
    EXPECT_EQ(ran.code, 1) << ran.out;
    for (const char* told : {"local, refused", "verdicts differ", " ran\n", "rank 3 does not exist",
                             "local, 4 ranks simulated", "1 value: 1 bit-equal"})
      EXPECT_NE(ran.out.find(told), std::string::npos) << told << "\n" << ran.out;
  }
}

TEST_F(RecordRun, LittleMemory_LeavesAWholeRecordOrNone) {
  std::ofstream(path("mlp.json")) << R"json({"version": 1, "let": {"n": 1}, "mesh": "dp=2",
    "tensors": {"x": {"shape": ["n"], "placements": "dp:S(0)"}}, "program": ["y = x * 2"],
    "sweep": {"n": [1000000, 1000001, 1000002, 1000003]}})json";
  for (int megabytes = 60; megabytes <= 300; megabytes += 20) {
    const std::string little = "(ulimit -v " + std::to_string(megabytes * 1000) + "; '";
    // A sanitizer needs more memory than this limit.
    if (shell(little + SHARDPROOF_PROGRAM "' --version)").code != 0) continue;
    const Ran ran = shell(little + SHARDPROOF_PROGRAM "' run " + path("mlp.json") +
                          " --jobs 2 --record " + path("r") + ")");
    EXPECT_TRUE(ran.code == 0 || ran.code == 2) << megabytes << ": " << ran.code << "\n" << ran.out;
    EXPECT_EQ(fs::exists(path("r")), fs::exists(path("r/manifest.json"))) << ran.out;
    fs::remove_all(path("r"));
  }
}

TEST_F(RecordRun, MountedReportFile_IsWrittenInPlace) {
  const Ran may = shell("unshare -m true");
  if (may.code != 0) GTEST_SKIP() << "no right to mount: " << may.out;
  for (const char* file : {"outside.json", "mounted.json"}) std::ofstream(path(file)) << "before";
  const Ran ran = shell("unshare -m sh -c \"mount --bind " + path("outside.json") + " " +
                        path("mounted.json") + " && '" SHARDPROOF_PROGRAM "' run " +
                        path("mlp.json") + " --json " + path("mounted.json") + "\"");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(read(path("outside.json")).find("\"scenarios\""), std::string::npos);
  EXPECT_EQ(read(path("mounted.json")), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
  // No other file can be created in this folder.
  fs::create_directory(path("closed"));
  std::ofstream(path("closed/mounted.json")) << "before";
  const Ran closed = shell("unshare -m sh -c \"mount --bind " + path("closed") + " " +
                           path("closed") + " && mount -o remount,ro,bind " + path("closed") +
                           " && mount --bind " + path("outside.json") + " " +
                           path("closed/mounted.json") + " && '" SHARDPROOF_PROGRAM "' run " +
                           path("mlp.json") + " --json " + path("closed/mounted.json") + "\"");
  EXPECT_EQ(closed.code, 0) << closed.out;
}

// An open file is written, not replaced, because other processes may write to it too.
TEST_F(RecordRun, ReportToStandardOutput_IsAppended) {
  std::ofstream(path("log")) << "before\n";
  const Ran ran = shell("'" SHARDPROOF_PROGRAM "' run " + path("mlp.json") +
                        " --json /dev/stdout >> " + path("log"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  const std::string log = read(path("log"));
  EXPECT_TRUE(log.starts_with("before\n")) << log;
  EXPECT_NE(log.find("\"scenarios\""), std::string::npos) << log;
}

TEST_F(RecordRun, UnwritableOutput_IsRefusedBeforeTheRun) {
  record("a");
  const std::string run = "run " + path("mlp.json") + " --record ";
  expect_refused(tool(run + path("a")), "expected a new or empty folder");
  expect_refused(tool(run + path("mlp.json")), "expected a folder to record into, found a file");
  expect_refused(tool(run + path("mlp.json") + "/below"), "cannot be made");
  expect_refused(tool(run + "/proc/nobody"), "cannot be");
  expect_refused(tool("run " + path("mlp.json") + " --iters 0"), "--iters: expected 1 to");
  expect_refused(tool("run " + path("mlp.json") + " --iters 3"), "local has none");
  expect_refused(tool("run " + path("mlp.json") + " --warmup -1"), "--warmup: expected 0 to");
  expect_refused(tool("run " + path("mlp.json") + " --compare all"),
                 "--compare: expected lines or outputs");
}

// The folder takes the last inode.
TEST_F(RecordRun, FolderThatCannotBeClaimed_IsRemoved) {
  fs::create_directories(path("small"));
  const std::string mount = "mount -t tmpfs -o nr_inodes=2 tmpfs " + path("small");
  if (shell("unshare -m sh -c '" + mount + "'").code != 0) GTEST_SKIP() << "no mount";
  const Ran ran =
      shell("unshare -m sh -c '" + mount + " && " SHARDPROOF_PROGRAM " run " + path("mlp.json") +
            " --record " + path("small/rec") + "; code=$?; ls " + path("small") + "; exit $code'");
  expect_refused(ran, "small/rec");
}

TEST_F(RecordRun, FullDisk_LeavesNoRecord) {
  // In blocks of 512 bytes: the first files fit, later ones do not.
  for (const int blocks : {0, 1, 3, 8}) {
    const Ran ran =
        shell("(ulimit -f " + std::to_string(blocks) + "; '" SHARDPROOF_PROGRAM "' run " +
              path("mlp.json") + " --record " + path("full") + ")");
    expect_refused(ran, "cannot be written: File too large");
    EXPECT_FALSE(fs::exists(path("full"))) << blocks;
  }
  const Ran may = shell("unshare -m true");
  if (may.code != 0) GTEST_SKIP() << "no right to mount: " << may.out;
  fs::create_directories(path("small"));
  const Ran ran = shell("unshare -m sh -c \"mount -t tmpfs -o size=16k tmpfs " + path("small") +
                        " && '" SHARDPROOF_PROGRAM "' run " + path("mlp.json") + " --record " +
                        path("small/r") + "; echo code \\$?; ls -a " + path("small") + "\"");
  EXPECT_NE(ran.out.find("cannot be written: No space left on device"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("code 2\n.\n..\n"), std::string::npos) << ran.out;
}

TEST_F(RecordRun, ComparedOutputs_AreTheLastValuesOfNames) {
  record("a", "--compare outputs");
  const Ran ran = tool("compare " + path("a") + " " + path("a"));
  EXPECT_NE(ran.out.find("3 values: 3 bit-equal"), std::string::npos) << ran.out;
  const Ran run = tool("run " + path("mlp.json") + " --compare outputs");
  EXPECT_NE(run.out.find("3 values compared"), std::string::npos) << run.out;
}

TEST_F(RecordRun, Record_HasTheRepeatCommand) {
  record("a", "--order 'ring(channels=2)' --seed 7");
  const std::string text = read(run_folder("a") / "run.json");
  for (const char* words :
       {"--order \\\"ring(channels=2)\\\" --seed 7", "\"pins\": \"NCCL_ALGO=Ring"})
    EXPECT_NE(text.find(words), std::string::npos) << text.substr(0, 1500);
}

}  // namespace
}  // namespace shardproof::record_run_test
