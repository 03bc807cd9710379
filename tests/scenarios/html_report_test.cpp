// Checks the structure of HTML reports and pictures without a browser. Every element is closed,
// every id is unique, nothing is loaded from elsewhere, and each part exists.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/pictures.h"
#include "shardproof/scenarios/report/report_html.h"

namespace shardproof::html_report_test {
namespace {

const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

std::string page_of(const std::vector<Scenario>& scenarios, bool searches_causes = true) {
  RunOptions options;
  options.draws = true;
  options.searches_causes = searches_causes;
  const std::vector<std::string> groups(scenarios.size());
  const RunResult result = run_scenarios(scenarios, groups, options, registries());
  return html_report(result, {"0.0.0", options}, scenarios, registries());
}

Scenario corpus(const std::string& name) {
  const std::string file = "scenarios/" + name + ".json";
  return load_file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + file, file);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Returns the first element that is not closed in order, or "".
std::string unbalanced(const std::string& page) {
  static const std::set<std::string> kVoid = {"!DOCTYPE", "meta", "?xml"};
  const std::regex tag("<(/?)([A-Za-z0-9!?]+)([^>]*)>");
  std::vector<std::string> open;
  for (auto it = std::sregex_iterator(page.begin(), page.end(), tag); it != std::sregex_iterator();
       ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (kVoid.contains(name) || rest.ends_with("/")) continue;
    if ((*it)[1] == "") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return name;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

void expect_well_formed(const std::string& page) {
  EXPECT_EQ(unbalanced(page), "");
  // Nothing comes from the network; the namespace of SVG is a name.
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("url("), std::string::npos);
  EXPECT_EQ(count(page, "http"), count(page, "http://www.w3.org/2000/svg"));
  std::set<std::string> ids;
  const std::regex id(" id=\"([^\"]*)\"");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), id); it != std::sregex_iterator();
       ++it)
    EXPECT_TRUE(ids.insert((*it)[1]).second) << (*it)[1];
  const std::regex link("href=\"#([^\"]*)\"");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), link); it != std::sregex_iterator();
       ++it)
    EXPECT_TRUE(ids.contains((*it)[1])) << (*it)[1];
}

TEST(HtmlReport, CorpusPages_AreWellFormed) {
  std::vector<Scenario> scenarios;
  for (const char* folder : {"bugs", "faults", "collectives"})
    for (const ScenarioPath& path :
         find_scenarios(std::string(SHARDPROOF_SOURCE_DIR) + "/scenarios/corpus/" + folder).paths)
      scenarios.push_back(load_file(path.path, path.file));
  const std::string page = page_of(scenarios, false);
  expect_well_formed(page);
  EXPECT_EQ(count(page, "<h2 id="), static_cast<int>(scenarios.size()));
}

TEST(HtmlReport, WrongValue_HasLineCauseFixAndPictures) {
  const std::string page = page_of({corpus("demo/planted_failure")});
  expect_well_formed(page);
  for (const char* part :
       {"<b class=\"bad\">wrong values</b> q[0, 0] on ranks 0-3: expected 13, got 25",
        "<th>cause</th>", "<th>fix</th><td>add b2 after the reduction", "<title>mesh ",
        "<title>owners of ", "<tr class=\"found\"><td>2</td>", "all_reduce over tp",
        "<th>placements</th>", "repeat  shardproof run"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(HtmlReport, Deadlock_HasItsWaitForGraph) {
  const std::string page = page_of({corpus("corpus/bugs/swapped_send_order")});
  EXPECT_NE(page.find("<title>wait-for graph"), std::string::npos);
  EXPECT_GE(count(page, "stroke=\"#c00\""), 2);  // the cycle
}

TEST(HtmlReport, SimulatedTimes_HaveATimeline) {
  const std::string text = R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4], "placements": "tp:S(0)"}},
      "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
      "program": ["y = redistribute(x, tp:R)"]})json";
  const std::string page = page_of({load_text(text, "<a & b>.json")});
  expect_well_formed(page);
  EXPECT_NE(page.find("<title>timeline of "), std::string::npos);
  EXPECT_NE(page.find("rank 1 main"), std::string::npos);
  EXPECT_NE(page.find("&lt;a &amp; b&gt;.json"), std::string::npos);
}

TEST(Pictures, Owners_ListRanksOfEachPart) {
  const Mesh mesh = Mesh::parse("dp=2, tp=2");
  const Spec spec = Spec::parse("dp:S(0)", mesh, {4, 6}, DType::f32);
  const std::string picture = owners_picture("x", spec);
  EXPECT_EQ(count(picture, "<rect"), 2);
  EXPECT_NE(picture.find("ranks 0 1: dim 0 [0, 2), dim 1 [0, 6)"), std::string::npos) << picture;
  // A dim without elements and too many ranks are not drawn.
  EXPECT_EQ(owners_picture("x", Spec::replicated(mesh, {0, 6}, DType::f32)), "");
  EXPECT_EQ(mesh_picture(Mesh::parse("dp=1000")), "");
}

}  // namespace
}  // namespace shardproof::html_report_test
