// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/perf/machine.hpp"

#include <gtest/gtest.h>

#include "tessera/core/error.hpp"
#include "tessera/io/files.hpp"

namespace tessera {
namespace {

std::string message(const std::string& text) {
  try {
    parse_machine(text, "m.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string changed(std::string text, const std::string& what, const std::string& to) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), to);
}

Machine example() {
  Machine m = guessed_machine(false);
  m.name = "example";
  m.measured = true;
  m.fingerprint = {{"cpu", "A (R) \"B\" CPU"}, {"threads", "2"}};
  m.ranks_per_node = 3;
  m.memory = 8e9;
  m.precisions[Precision::float32] = {{{Op::conv, 3, 64, 64, {{{1024, 1.25e-4}, {4096, 3e-4}}}},
                                       {Op::conv_up, 1, 128, 64, {{{4096, 7.5e-5}}}},
                                       {Op::max_pool, 1, 64, 64, {{{256, 1e-5}, {1024, 3e-5}}}}},
                                      0,
                                      0};
  m.links[TransportKind::mpi].node.overlaps = false;
  return m;
}

TEST(Curve, interpolates_in_logarithms_and_keeps_the_last_rate) {
  const Curve c{{{100, 1.0}, {10000, 4.0}}};
  EXPECT_DOUBLE_EQ(c.at(100), 1.0);
  EXPECT_NEAR(c.at(1000), 2.0, 1e-12);  // halfway in logarithms
  EXPECT_NEAR(c.at(10000), 4.0, 1e-12);
  EXPECT_NEAR(c.at(30000), 12.0, 1e-12);  // proportional beyond
  EXPECT_NEAR(c.at(1), 0.25, 1e-12);      // the first slope goes on
  EXPECT_EQ(c.at(0), 0);
  EXPECT_DOUBLE_EQ((Curve{{{100, 2.0}, {1000, 1.0}}}).at(10), 2.0);  // but less never takes longer
  EXPECT_DOUBLE_EQ((Curve{{{10, 2.0}}}).at(5), 1.0);
  EXPECT_EQ(Curve{}.at(5), 0);
}

TEST(MachineFile, round_trip) {
  const Machine m = example();
  EXPECT_EQ(parse_machine(write_machine(m), "again"), m);
}

TEST(MachineFile, says_what_is_wrong) {
  const std::string good = write_machine(example());
  EXPECT_EQ(message(good), "accepted");
  EXPECT_EQ(message(changed(good, "schema: 1", "schema: 7")),
            "m.yaml: schema is 7 (this version reads 1) measure the machine again");
  EXPECT_EQ(message(changed(good, "direct:", "drect:")),
            "m.yaml: drect is no key of a machine file (it would act on nothing) did you mean direct?");
  EXPECT_NE(message(changed(good, "L: ", "L: -")).find("links.mpi.node.L is -"), std::string::npos)
      << message(changed(good, "L: ", "L: -"));
  EXPECT_NE(message(changed(good, "kind: conv,", "kind: cnv,")).find("kind 'cnv'"), std::string::npos);
  EXPECT_NE(
      message(changed(good, "kind: max_pool", "kind: batch_norm")).find("a layer is of kind 'batch_norm'"),
      std::string::npos);
  EXPECT_NE(message(changed(good, "1024: 0.000125", "1024: fast")).find("layers.seconds.1024 is fast"),
            std::string::npos)
      << message(changed(good, "1024: 0.000125", "1024: fast"));
  EXPECT_NE(message(changed(good, "1024: 0.000125", "1024: 0")).find("is 0 (nothing takes no time)"),
            std::string::npos);
  EXPECT_NE(message(changed(good, "state:", "#")).find("state is missing"), std::string::npos);
  EXPECT_NE(message("just text").find("is no map"), std::string::npos);
  EXPECT_NE(message("a: [1, 2").find("is no machine file"), std::string::npos);
}

TEST(MachineFile, supplied_ones_can_be_read_and_are_no_measurements) {
  for (const char* name : {"a100-nvlink-infiniband", "b200-nvlink-infiniband", "h100-nvlink-infiniband",
                           "h200-nvlink-infiniband", "v100"}) {
    const std::string path = find_machine(name);
    const Machine m = parse_machine(read_text(path), path);
    EXPECT_EQ(m.name, name);
    EXPECT_FALSE(m.measured);
    EXPECT_TRUE(m.links.contains(TransportKind::nccl));
    EXPECT_NE(read_text(path).find("Predicted, not measured"), std::string::npos);
  }
  try {
    find_machine("h200");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("h200-nvlink-infiniband, v100"), std::string::npos) << e.what();
  }
}

TEST(Fingerprint, names_the_first_difference) {
  auto was = machine_fingerprint(2, 1, "cpu"), is = was;
  EXPECT_EQ(difference(was, is), "");
  is["torch"] = "9.9";
  EXPECT_EQ(difference(was, is), "torch was " + was["torch"] + " and is 9.9");
  was.erase("device");
  EXPECT_EQ(difference(was, machine_fingerprint(2, 1, "cpu")), "device was not recorded and is cpu");
}

}  // namespace
}  // namespace tessera
