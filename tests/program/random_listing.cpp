// Implements random_listing.h.
#include "shardproof/tests/program/random_listing.h"

#include <fmt/format.h>

namespace shardproof {

std::string RandomListing::number() {
  switch (pick(5)) {
    case 0: return fmt::format("{}", pick(10));
    case 1: return fmt::format("{}", rng_.bits(draws_++) >> 1);
    case 2: return fmt::format("{}", rng_.uniform(draws_++) * 100);
    case 3: return fmt::format("{}e{}", pick(100), pick(40) - 20);
    default: return one_of({"true", "false", "True", "inf", "nan", "1.0", "1e-5"});
  }
}

std::string RandomListing::name(int depth) {
  std::string name =
      one_of({"x", "w1", "_h", "kept", "rank", "world", "next", "bf16", "fort", "sum"});
  const bool outer = in_braces_;
  in_braces_ = true;  // no text is allowed inside braces
  while (depth > 0 && pick(5) == 0)
    name += "{" + gap() + binary(depth - 1) + gap() + "}" + one_of({"", "_y", "3", "T"});
  in_braces_ = outer;
  return name;
}

std::string RandomListing::text(int depth) {
  std::string text = one_of({"", "ckpt/", "bsd,dhk->bhsk", "# no comment, (no call)", "\xc3\xa9"});
  if (depth > 0 && pick(3) == 0) text += "{" + name(0) + " - 1}" + one_of({"", "/end"});
  return "'" + text + "'";
}

std::string RandomListing::joined(int count, int depth) {
  std::string all;
  for (int i = 0; i < count; ++i) all += (i > 0 ? gap() + "," + gap() : "") + binary(depth);
  return all;
}

std::string RandomListing::placements() {
  std::string all;
  for (int64_t i = 0, count = 1 + pick(3); i < count; ++i) {
    if (i > 0) all += " ";
    if (pick(4) > 0) all += one_of({"dp:", "tp:", "cp: "});
    all += one_of({"R", "S(0)", "S(-1)", "S(1, split=2)", "S(0, sizes=[3, 0, 5])",
                   "S( 0 , after=tp )", "S(2, after=[dp, tp])", "S(0, split=3, after=tp)", "P(sum)",
                   "P(avg)", "P(norm(2))", "P(norm(0.5))", "P(bxor)"});
  }
  return all;
}

std::string RandomListing::value(int depth) {
  std::string key = pick(3) == 0 ? fmt::format("key{}{}={}", draws_, gap(), gap()) : "";
  const bool starts_with_axis = pick(6) == 0;
  if (!starts_with_axis) return key + binary(depth);
  const std::string on = one_of({"", "", " on pp=0", "  on  0 2-3"});
  if (!on.empty() && pick(3) == 0) return key + on.substr(on.find('o'));
  return key + "tp:S(0) " + placements() + on;
}

std::string RandomListing::call(int depth) {
  std::string all = one_of({"gelu", "all_reduce_", "size", "all", "rest", "min"});
  all += (pick(8) == 0 ? " (" : "(") + gap();
  for (int64_t i = 0, count = pick(4); i < count; ++i)
    all += (i > 0 ? gap() + "," + gap() : "") + value(depth - 1);
  return all + gap() + ")";
}

std::string RandomListing::items(int depth) {
  std::string all = "[";
  for (int64_t i = 0, count = 1 + pick(2); i < count; ++i) {
    if (i > 0) all += ", ";
    if (pick(4) == 0) {
      all += one_of({"...", "None"});
      continue;
    }
    if (pick(2) == 0) {
      all += binary(depth);
      continue;
    }
    all += (pick(2) == 0 ? binary(depth) : "") + gap() + ":" + gap();
    if (pick(2) == 0) all += binary(depth);
    if (pick(3) == 0) all += gap() + ":" + gap() + (pick(4) == 0 ? "" : binary(depth));
  }
  return all + "]";
}

std::string RandomListing::primary(int depth) {
  if (depth <= 0) return pick(2) == 0 ? number() : name(0);
  std::string all;
  switch (pick(7)) {
    case 0: all = number(); break;
    case 1: all = in_braces_ ? number() : text(depth); break;
    case 2: all = "(" + gap() + binary(depth - 1) + gap() + ")"; break;
    case 3:
      all = pick(3) == 0 ? "(" + joined(static_cast<int>(2 + pick(2)), depth - 1) + ")"
                         : "[" + joined(static_cast<int>(pick(4)), depth - 1) + "]";
      break;
    case 4: all = call(depth); break;
    default: all = name(depth);
  }
  while (pick(4) == 0) all += pick(2) == 0 ? items(depth - 1) : gap() + ".T";
  return all;
}

std::string RandomListing::binary(int depth) {
  const int64_t shape = pick(depth > 0 ? 8 : 2);
  if (shape < 2) return primary(depth);
  if (shape == 2) return one_of({"-", "- ", "+", "--"}) + primary(depth - 1);
  if (shape == 3) return "(not " + binary(depth - 1) + ")";
  if (shape == 4)
    return "(" + binary(depth - 1) + one_of({" < ", "<=", "==", " != ", ">", " >= "}) +
           binary(depth - 1) + ")";
  if (shape == 5)
    return "(" + binary(depth - 1) + one_of({" and ", " or "}) + binary(depth - 1) + ")";
  std::string all = primary(depth - 1);
  for (int64_t i = 0, count = 1 + pick(3); i < count; ++i)
    all += gap() + one_of({"+", "-", "@", "*", "/", "//", "%", "**", "** -"}) + gap() +
           primary(depth - 1);
  return all;
}

std::string RandomListing::expression(int depth) {
  switch (pick(4)) {
    case 0: return "not " + binary(depth);
    case 1:
      return binary(depth) + one_of({" < ", " == ", " >= "}) + binary(depth) +
             one_of({" and ", " or ", " and not "}) + binary(depth);
    default: return binary(depth);
  }
}

std::string RandomListing::simple_statement() {
  switch (pick(5)) {
    case 0: return call(3);
    case 1: return one_of({"y", "h{i - 1}"}) + items(2) + " = " + expression(3);
    case 2: return "d, g{i}" + gap() + "," + gap() + "e = " + expression(2);
    case 3: return "y = " + expression(3) + " as " + placements();
    default: return one_of({"y", "h{i}", "froms"}) + gap() + "=" + gap() + expression(3);
  }
}

void RandomListing::blank_lines(std::vector<std::string>& out) {
  while (pick(6) == 0)
    out.push_back(std::string(static_cast<size_t>(pick(5)), ' ') + one_of({"", "# a comment: 'x"}));
}

void RandomListing::block(std::vector<std::string>& out, int indent, int depth) {
  for (int64_t i = 0, count = 1 + pick(3); i < count; ++i) statement(out, indent, depth);
}

void RandomListing::statement(std::vector<std::string>& out, int indent, int depth) {
  blank_lines(out);
  const std::string before(static_cast<size_t>(indent), ' ');
  const int64_t kind = depth > 0 ? pick(8) : 7;
  if (kind > 3) {
    out.push_back(before + simple_statement() + one_of({"", "  # y = 'x", "#"}));
    return;
  }
  std::string header = "group";
  if (kind == 0) header = "for i in range(" + expression(1) + (pick(2) ? ", n)" : ")");
  if (kind == 1) header = "if " + expression(2);
  if (kind == 2) header = one_of({"on comm", "on main", "on s{i}"});
  header = before + header + gap() + ":";
  const auto body = [&](std::string head) {
    if (pick(3) == 0) {
      out.push_back(head + " " + simple_statement());
    } else {
      out.push_back(head + one_of({"", "   # why"}));
      block(out, indent + 2, depth - 1);
    }
  };
  body(header);
  blank_lines(out);
  if (kind == 1 && pick(2) == 0) body(before + "else:");
}

std::vector<std::string> RandomListing::lines() {
  std::vector<std::string> out;
  block(out, 0, 3);
  blank_lines(out);
  return out;
}

}  // namespace shardproof
