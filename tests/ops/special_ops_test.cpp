// Tests special functions against values computed with 60 digits (mpmath), at poles and outside of
// their domains, and the ops that split complex numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shardproof/engine/check_ops/computation.h"
#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof::testing::special_ops_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const OpRegistry& registry() {
  static const OpRegistry ops = builtin_ops();
  return ops;
}

// Returns the value of a call such as "zeta(x0, x1)" on one device.
Tensor run_call(const std::string& call, const std::vector<Tensor>& inputs) {
  std::vector<TensorMeta> metas;
  for (const Tensor& input : inputs) metas.push_back({input.dtype, input.shape});
  return Computation::of_lines(registry(), {"y = " + call}, {"y"}).run_whole(metas, inputs).front();
}

// A value of an op of one or two operands. Ops of one operand ignore y.
struct Value {
  const char* op;
  double x, y, expected;
};

double value_of(const Value& value, DType dtype = DType::f64) {
  std::vector<Tensor> inputs = {tensor_of(dtype, {1}, {value.x})};
  const bool has_two = registry().at(value.op).params.size() == 2;
  if (has_two) inputs.push_back(tensor_of(dtype, {1}, {value.y}));
  const std::string call = std::string(value.op) + (has_two ? "(x0, x1)" : "(x0)");
  return values_of(run_call(call, inputs)).front();
}

// clang-format off
const Value kValues[] = {
    {"lgamma", -20.25, 0, -41.600961915340524302},
    {"lgamma", -3.5, 0, -1.3090066849930420464},
    {"lgamma", -1.25, 0, 1.3664317612369762345},
    {"lgamma", -0.3125, 0, 1.4394918822723423391},
    {"lgamma", 0.0078125, 0, 4.8475707758816648668},
    {"lgamma", 0.4375, 0, 0.70547614598544527359},
    {"lgamma", 2.5, 0, 0.28468287047291915963},
    {"lgamma", 7.75, 0, 8.0254583963159838712},
    {"lgamma", 40.5, 0, 108.47307506906538405},
    {"lgamma", 300, 0, 1409.2020674704117875},
    {"digamma", -20.25, 0, 6.1742356336144837692},
    {"digamma", -3.5, 0, 1.3888709263595289015},
    {"digamma", -1.25, 0, 3.7141391202135278304},
    {"digamma", -0.3125, 0, 1.9440395239630640204},
    {"digamma", 0.0078125, 0, -128.56443747297672764},
    {"digamma", 0.4375, 0, -2.3093278297195836134},
    {"digamma", 1, 0, -0.57721566490153286061},
    {"digamma", 2.5, 0, 0.70315664064524318723},
    {"digamma", 7.75, 0, 1.9817915626943455972},
    {"digamma", 40.5, 0, 3.6889054929332335844},
    {"digamma", 300, 0, 5.702114882064637268},
    {"erfinv", -0.9990234375, 0, -2.3314677736219476723},
    {"erfinv", -0.5, 0, -0.47693627620446987338},
    {"erfinv", 0.0009765625, 0, 0.00086545619796713755345},
    {"erfinv", 0.75, 0, 0.81341984759761854169},
    {"erfinv", 0.9999990463256836, 0, 3.4655050258033307173},
    {"erfcx", -20.25, 0, 2.4485613000901128214e+178},
    {"erfcx", -3.5, 0, 417962.42244577031413},
    {"erfcx", -0.3125, 0, 1.4790814584941149894},
    {"erfcx", 0.4375, 0, 0.64919325005386473948},
    {"erfcx", 2.5, 0, 0.21080636406114358065},
    {"erfcx", 7.75, 0, 0.072207170814669760508},
    {"erfcx", 24.5, 0, 0.023009011874778182188},
    {"erfcx", 40.5, 0, 0.013926364389714461414},
    {"erfcx", 300, 0, 0.0018806214973780644895},
    {"ndtri", 9.5367431640625e-07, 0, -4.763001034267813957},
    {"ndtri", 0.125, 0, -1.1503493803760081783},
    {"ndtri", 0.75, 0, 0.6744897501960817432},
    {"ndtri", 0.9990234375, 0, 3.0972690781987844624},
    {"log_ndtr", -300, 0, -45006.62273211866336},
    {"log_ndtr", -20.25, 0, -208.96076728764923992},
    {"log_ndtr", -3.5, 0, -8.366065308344092935},
    {"log_ndtr", -1, 0, -1.8410216450092635058},
    {"log_ndtr", -0.3125, 0, -0.97463439673826258913},
    {"log_ndtr", 0.4375, 0, -0.40178347570279164858},
    {"log_ndtr", 2.5, 0, -0.006229025485860002381},
    {"log_ndtr", 7.75, 0, -4.5946274357786060155e-15},
    {"i0", -20.25, 0, 55579102.84093864899},
    {"i0", -3.5, 0, 7.3782034322254796603},
    {"i0", -1.25, 0, 1.4304687177218296818},
    {"i0", -0.3125, 0, 1.0245634789491992437},
    {"i0", 0.0078125, 0, 1.0000152588472702596},
    {"i0", 0.4375, 0, 1.0484270582164404739},
    {"i0", 1, 0, 1.2660658777520083356},
    {"i0", 2.5, 0, 3.2898391440501230357},
    {"i0", 7.75, 0, 338.51375374727594515},
    {"i0", 40.5, 0, 24404306884276696.09},
    {"i0", 300, 0, 4.4758473679350521181e+128},
    {"i1", -20.25, 0, -54188928.204248739713},
    {"i1", -3.5, 0, -6.2058349222583654736},
    {"i1", -1.25, 0, -0.75528141834074719156},
    {"i1", -0.3125, 0, -0.15816512546339660164},
    {"i1", 0.0078125, 0, 0.0039062798023981790168},
    {"i1", 0.4375, 0, 0.22402567212956100307},
    {"i1", 1, 0, 0.56515910399248502721},
    {"i1", 2.5, 0, 2.5167162452886984415},
    {"i1", 7.75, 0, 315.8524809240034021},
    {"i1", 40.5, 0, 24101111554186504.719},
    {"i1", 300, 0, 4.4683813850369544139e+128},
    {"i0e", -20.25, 0, 0.089217135162321048578},
    {"i0e", -3.5, 0, 0.22280243801077916331},
    {"i0e", -1.25, 0, 0.40983614938574942753},
    {"i0e", -0.3125, 0, 0.74958665404717779162},
    {"i0e", 0.0078125, 0, 0.99223307836222223703},
    {"i0e", 0.4375, 0, 0.67691538520457457086},
    {"i0e", 1, 0, 0.4657596075936404365},
    {"i0e", 2.5, 0, 0.27004644161220273956},
    {"i0e", 7.75, 0, 0.14581227430891430778},
    {"i0e", 40.5, 0, 0.062883971258059819592},
    {"i0e", 300, 0, 0.023042558415085461794},
    {"i0e", 650, 0, 0.015650815436407734124},
    {"i0e", 5000, 0, 0.005642036898744588657},
    {"i1e", -20.25, 0, -0.086985587833898941321},
    {"i1e", -3.5, 0, -0.18739997660304998737},
    {"i1e", -1.25, 0, -0.21639174933399203162},
    {"i1e", -0.3125, 0, -0.11571607774332741339},
    {"i1e", 0.0078125, 0, 0.0038758808918031526141},
    {"i1e", 0.4375, 0, 0.14464184509246914392},
    {"i1e", 1, 0, 0.20791041534970844887},
    {"i1e", 2.5, 0, 0.20658464953126655421},
    {"i1e", 7.75, 0, 0.13605110008033910914},
    {"i1e", 40.5, 0, 0.062102710535787327866},
    {"i1e", 300, 0, 0.023004122040268950902},
    {"i1e", -650, 0, -0.015638771710050828709},
    {"i1e", 5000, 0, 0.0056414726668388859036},
    {"bessel_j0", -20.25, 0, 0.14542139387367761994},
    {"bessel_j0", -3.5, 0, -0.38012773998726337738},
    {"bessel_j0", -1.25, 0, 0.64590608527128526495},
    {"bessel_j0", -0.3125, 0, 0.9757345455082596649},
    {"bessel_j0", 0.0078125, 0, 0.99998474126914506223},
    {"bessel_j0", 0.4375, 0, 0.9527178460055069849},
    {"bessel_j0", 1, 0, 0.76519768655796655145},
    {"bessel_j0", 2.5, 0, -0.048383776468197996327},
    {"bessel_j0", 7.75, 0, 0.22523406912010669729},
    {"bessel_j0", 40.5, 0, -0.053582675632262946882},
    {"bessel_j0", 300, 0, -0.033298554876305668007},
    {"bessel_j1", -20.25, 0, -0.10501496864953360309},
    {"bessel_j1", -3.5, 0, -0.13737752736232718572},
    {"bessel_j1", -1.25, 0, -0.51062326031988046707},
    {"bessel_j1", -0.3125, 0, -0.15435039661806308515},
    {"bessel_j1", 0.0078125, 0, 0.0039062201977534034335},
    {"bessel_j1", 0.4375, 0, 0.21355780993897328563},
    {"bessel_j1", 1, 0, 0.44005058574493351596},
    {"bessel_j1", 2.5, 0, 0.49709410246427403801},
    {"bessel_j1", 7.75, 0, 0.19160259218911780557},
    {"bessel_j1", 40.5, 0, 0.11269052994059431271},
    {"bessel_j1", 300, 0, -0.031887431377499950314},
    {"bessel_y0", 0.0078125, 0, -3.1626447244253426062},
    {"bessel_y0", 0.4375, 0, -0.54179079742759428132},
    {"bessel_y0", 1.25, 0, 0.25821685159454078472},
    {"bessel_y0", 3.75, 0, 0.085256756977362699539},
    {"bessel_y0", 19.5, 0, -0.025451742976154467114},
    {"bessel_y0", 150.25, 0, -0.063255908589365740328},
    {"bessel_y1", 0.0078125, 0, -81.500928450482933893},
    {"bessel_y1", 0.4375, 0, -1.6487930513725303233},
    {"bessel_y1", 1.25, 0, -0.58436403661500817285},
    {"bessel_y1", 3.75, 0, 0.41586877934522707405},
    {"bessel_y1", 19.5, 0, -0.17956456689631788991},
    {"bessel_y1", 150.25, 0, -0.015564301086833930581},
    {"modified_bessel_k0", 0.0078125, 0, 4.9680528438244428553},
    {"modified_bessel_k0", 0.4375, 0, 1.0369737484181650862},
    {"modified_bessel_k0", 1.25, 0, 0.29760308908410591656},
    {"modified_bessel_k0", 3.75, 0, 0.014774250877128704232},
    {"modified_bessel_k0", 19.5, 0, 9.5848240093128286566e-10},
    {"modified_bessel_k0", 150.25, 0, 5.7088242930704925246e-67},
    {"scaled_modified_bessel_k0", 0.0078125, 0, 5.0070177652053282742},
    {"scaled_modified_bessel_k0", 0.4375, 0, 1.6060963604382630348},
    {"scaled_modified_bessel_k0", 1.25, 0, 1.0387368461035980867},
    {"scaled_modified_bessel_k0", 3.75, 0, 0.62821713303588912981},
    {"scaled_modified_bessel_k0", 19.5, 0, 0.28205028321567020271},
    {"scaled_modified_bessel_k0", 150.25, 0, 0.10216275181715920114},
    {"scaled_modified_bessel_k0", 5000.0, 0, 0.017724095445432316158},
    {"modified_bessel_k1", 0.0078125, 0, 127.97864058898831893},
    {"modified_bessel_k1", 0.4375, 0, 1.9585583266397200257},
    {"modified_bessel_k1", 1.25, 0, 0.40212407978419541259},
    {"modified_bessel_k1", 3.75, 0, 0.016638191754688907714},
    {"modified_bessel_k1", 19.5, 0, 9.8275877543638105883e-10},
    {"modified_bessel_k1", 150.25, 0, 5.7277906424526653354e-67},
    {"scaled_modified_bessel_k1", 0.0078125, 0, 128.98238950747682298},
    {"scaled_modified_bessel_k1", 0.4375, 0, 3.0334744779417655654},
    {"scaled_modified_bessel_k1", 1.25, 0, 1.4035509499005900766},
    {"scaled_modified_bessel_k1", 3.75, 0, 0.70747391593389552591},
    {"scaled_modified_bessel_k1", 19.5, 0, 0.28919403285359758594},
    {"scaled_modified_bessel_k1", 150.25, 0, 0.10250216573941994105},
    {"scaled_modified_bessel_k1", 5000.0, 0, 0.017725867766374100722},
    {"airy_ai", -20.25, 0, -0.25609535403377042231},
    {"airy_ai", -3.5, 0, -0.37553382314043191193},
    {"airy_ai", -0.3125, 0, 0.43389964587778378242},
    {"airy_ai", 0.4375, 0, 0.24597167386641137957},
    {"airy_ai", 2.5, 0, 0.015725923380470489995},
    {"airy_ai", 7.75, 0, 9.5370389616415852237e-8},
    {"igamma", 0.25, 0.0625, 0.5448539395619165579},
    {"igamma", 0.25, 2.5, 0.99078625152045996729},
    {"igamma", 0.25, 30.0, 0.99999999999999803418},
    {"igamma", 3.0, 0.0625, 0.000038829622374407353042},
    {"igamma", 3.0, 2.5, 0.456186884116670482},
    {"igamma", 3.0, 30.0, 0.99999999995498983352},
    {"igamma", 25.5, 0.0625, 2.3592714427693519741e-57},
    {"igamma", 25.5, 2.5, 1.6164242705389302676e-17},
    {"igamma", 25.5, 30.0, 0.81824007075265887622},
    {"igammac", 0.25, 0.0625, 0.4551460604380834421},
    {"igammac", 0.25, 2.5, 0.0092137484795400327068},
    {"igammac", 0.25, 30.0, 1.9658221473570593544e-15},
    {"igammac", 3.0, 0.0625, 0.99996117037762559265},
    {"igammac", 3.0, 2.5, 0.543813115883329518},
    {"igammac", 3.0, 30.0, 4.501016648012123985e-11},
    {"igammac", 25.5, 0.0625, 1.0},
    {"igammac", 25.5, 2.5, 0.99999999999999998384},
    {"igammac", 25.5, 30.0, 0.18175992924734112378},
    {"zeta", 1.25, 0.125, 17.843951959328802414},
    {"zeta", 1.25, 1.0, 4.5951118258429433807},
    {"zeta", 1.25, 30.5, 1.7091233041836418869},
    {"zeta", 2.0, 0.125, 65.388133444988034473},
    {"zeta", 2.0, 1.0, 1.6449340668482264365},
    {"zeta", 2.0, 30.5, 0.033330248112801608527},
    {"zeta", 3.0, 0.125, 512.8766690590678413},
    {"zeta", 3.0, 1.0, 1.2020569031595942854},
    {"zeta", 3.0, 30.5, 0.00055540133446797086841},
    {"zeta", 15.5, 0.125, 99516432383215.357446},
    {"zeta", 15.5, 1.0, 1.0000216199042460691},
    {"zeta", 15.5, 30.5, 2.6053947797711247033e-23},
    {"zeta", 2, -0.5, 8.9348022005446793094},
    {"zeta", 2, -2.75, 19.433868949488464162},
    {"zeta", 3, -0.5, 0.4143983221171599978},
    {"zeta", 3, -2.75, 62.058826529857589986},
};
// clang-format on

TEST(SpecialOps, F64_AgreesWithSixtyDigits) {
  for (const Value& value : kValues)
    EXPECT_NEAR(value_of(value) / value.expected, 1, 2e-14)
        << value.op << "(" << value.x << ", " << value.y << "): expected " << value.expected;
}

TEST(SpecialOps, F32_IsTheF64ValueRoundedOnce) {
  for (const Value& value : kValues) {
    const Value narrow = {value.op, static_cast<float>(value.x), static_cast<float>(value.y), 0};
    EXPECT_EQ(value_of(narrow, DType::f32), static_cast<float>(value_of(narrow)))
        << value.op << "(" << value.x << ", " << value.y << ")";
  }
}

TEST(SpecialOps, PolesAndEdges_HaveValuesOfTorch) {
  const Value kEdges[] = {{"lgamma", 0, 0, kInf},
                          {"lgamma", -2, 0, kInf},
                          {"lgamma", -kInf, 0, kInf},
                          {"digamma", 0, 0, -kInf},
                          {"digamma", -0.0, 0, kInf},
                          {"digamma", -3, 0, kNan},
                          {"digamma", kInf, 0, kInf},
                          {"digamma", -kInf, 0, kNan},
                          {"erfinv", 1, 0, kInf},
                          {"erfinv", -1, 0, -kInf},
                          {"erfinv", 1.5, 0, kNan},
                          {"erfcx", kInf, 0, 0},
                          {"erfcx", -kInf, 0, kInf},
                          {"ndtri", 0, 0, -kInf},
                          {"ndtri", 1, 0, kInf},
                          {"ndtri", -0.5, 0, kNan},
                          {"log_ndtr", kInf, 0, 0},
                          {"log_ndtr", -kInf, 0, -kInf},
                          {"i0", kInf, 0, kInf},
                          {"i1", -kInf, 0, -kInf},
                          {"i0e", kInf, 0, 0},
                          {"i1e", 0, 0, 0},
                          {"bessel_j0", 0, 0, 1},
                          {"bessel_j1", 0, 0, 0},
                          {"igamma", 0, 2, 1},
                          {"igamma", 0, 0, kNan},
                          {"igamma", 2, 0, 0},
                          {"igamma", 2, kInf, 1},
                          {"igamma", kInf, 2, 0},
                          {"igamma", -1, 2, kNan},
                          {"igamma", 2, -1, kNan},
                          {"igammac", 0, 2, 0},
                          {"igammac", 2, 0, 1},
                          {"igammac", 2, kInf, 0},
                          {"igammac", kInf, 2, 1},
                          {"zeta", 1, 2, kInf},
                          {"zeta", 0.5, 2, kNan},
                          {"zeta", 2, 0, kInf},
                          {"zeta", 2, -3, kInf},
                          {"zeta", 2.5, -0.5, kNan},
                          {"bessel_y0", 0, 0, -kInf},
                          {"bessel_y1", -1, 0, kNan},
                          {"modified_bessel_k0", 0, 0, kInf},
                          {"modified_bessel_k1", -1, 0, kNan},
                          {"modified_bessel_k0", kInf, 0, 0},
                          {"airy_ai", kInf, 0, 0},
                          {"nextafter", 1, 2, 1 + 0x1p-52},
                          {"nextafter", 1, 1, 1},
                          {"nextafter", 0, -1, -0x1p-1074}};
  for (const Value& edge : kEdges) {
    const double found = value_of(edge);
    EXPECT_TRUE(found == edge.expected || (std::isnan(found) && std::isnan(edge.expected)))
        << edge.op << "(" << edge.x << ", " << edge.y << "): expected " << edge.expected
        << ", found " << found;
  }
}

TEST(SpecialOps, Nan_IsPassedOn) {
  for (const OpRecord* op : registry().all()) {
    if (op->family != "special" || op->params.at(0).kind != ParamKind::tensor) continue;
    if (op->params.size() == 2 && op->params[1].kind != ParamKind::tensor) continue;
    EXPECT_TRUE(std::isnan(value_of({op->name.c_str(), kNan, 2, 0}))) << op->name;
    if (op->params.size() == 2) {
      EXPECT_TRUE(std::isnan(value_of({op->name.c_str(), 2, kNan, 0}))) << op->name;
    }
  }
}

TEST(SpecialOps, NextAfter_StepsInItsDType_AndRefusesNarrowFloats) {
  EXPECT_EQ(value_of({"nextafter", 1, 2, 0}, DType::f32), 1 + 0x1p-23);
  EXPECT_THROW(value_of({"nextafter", 1, 2, 0}, DType::bf16), Error);
}

// log of the product of gamma(x - j / 2), times pi^(p (p - 1) / 4).
TEST(SpecialOps, Formulas_HaveTheirValues) {
  const Tensor x = tensor_of(DType::f64, {2}, {2.5, 4});
  const auto values = [&](const char* call) { return values_of(run_call(call, {x})); };
  const std::vector<double> third = values("polygamma(3, x0)");
  EXPECT_NEAR(third[0], 0.22390584881725047, 1e-14);  // 3! zeta(4, 2.5)
  EXPECT_NEAR(third[1], 0.0448653281927551, 1e-14);
  EXPECT_EQ(values("polygamma(0, x0)"), values_of(run_call("digamma(x0)", {x})));
  const double gammas = std::lgamma(2.5) + std::lgamma(2) + std::lgamma(1.5);
  EXPECT_NEAR(values("mvlgamma(x0, 3)")[0], gammas + 1.5 * std::log(M_PI), 1e-14);
  const Tensor zero = tensor_of(DType::f64, {3}, {0, 0, 3});
  const Tensor y = tensor_of(DType::f64, {3}, {-1, kNan, 0.5});
  const std::vector<double> products = values_of(run_call("xlog1py(x0, x1)", {zero, y}));
  EXPECT_EQ(products[0], 0);
  EXPECT_TRUE(std::isnan(products[1]));
  EXPECT_EQ(products[2], 3 * std::log1p(0.5));
}

TEST(ComplexOps, Parts_AreThoseOfTheNumber) {
  const Tensor re = tensor_of(DType::f64, {2}, {3, kInf}), im = tensor_of(DType::f64, {2}, {-4, 1});
  const Tensor z = run_call("complex(x0, x1)", {re, im});
  ASSERT_EQ(z.dtype, DType::c128);
  EXPECT_EQ(values_of(run_call("real(x0)", {z})), values_of(re));
  EXPECT_EQ(values_of(run_call("imag(x0)", {z})), values_of(im));
  EXPECT_EQ(values_of(run_call("angle(x0)", {z})), (std::vector<double>{std::atan2(-4, 3), 0}));
  EXPECT_EQ(values_of(run_call("angle(x0)", {tensor_of(DType::f32, {2}, {-2, 5})})),
            (std::vector<double>{static_cast<float>(M_PI), 0}));
  const Tensor turned = run_call(
      "polar(x0, x1)", {tensor_of(DType::f64, {1}, {2}), tensor_of(DType::f64, {1}, {M_PI / 6})});
  EXPECT_NEAR(values_of(run_call("imag(x0)", {turned}))[0], 1, 1e-15);
  const Tensor pair = run_call("view_as_real(x0)", {z});
  EXPECT_EQ(pair.shape, (Dims{2, 2}));
  EXPECT_EQ(values_of(pair), (std::vector<double>{3, -4, kInf, 1}));
  EXPECT_EQ(values_of(run_call("imag(x0)", {run_call("view_as_complex(x0)", {pair})})),
            values_of(im));
  EXPECT_THROW(run_call("imag(x0)", {re}), Error);
  EXPECT_THROW(run_call("view_as_complex(x0)", {tensor_of(DType::f32, {3}, {1, 2, 3})}), Error);
}

TEST(Shifts, AllBitsAndMore_ShiftEveryBitOut) {
  const Tensor x = tensor_of(DType::i32, {4}, {-5, 5, -5, 5});
  const Tensor by = tensor_of(DType::i32, {4}, {1, 2, 40, -1});
  EXPECT_EQ(values_of(run_call("bitwise_left_shift(x0, x1)", {x, by})),
            (std::vector<double>{-10, 20, 0, 0}));
  EXPECT_EQ(values_of(run_call("bitwise_right_shift(x0, x1)", {x, by})),
            (std::vector<double>{-3, 1, -1, 0}));
  const Tensor high = tensor_of(DType::u8, {2}, {200, 200}),
               one = tensor_of(DType::u8, {2}, {1, 9});
  EXPECT_EQ(values_of(run_call("bitwise_left_shift(x0, x1)", {high, one})),
            (std::vector<double>{144, 0}));
}

TEST(Divisors, OfNegativesAndZeros_AreNotNegative) {
  const Tensor x = tensor_of(DType::i32, {5}, {12, -12, 0, 0, 7});
  const Tensor y = tensor_of(DType::i32, {5}, {18, 8, -5, 0, 0});
  EXPECT_EQ(values_of(run_call("gcd(x0, x1)", {x, y})), (std::vector<double>{6, 4, 5, 0, 7}));
  EXPECT_EQ(values_of(run_call("lcm(x0, x1)", {x, y})), (std::vector<double>{36, 24, 0, 0, 0}));
}

}  // namespace
}  // namespace shardproof::testing::special_ops_test
