// All that `unisono doctor` has to say, as text and as JSON. docs/doctor.md has the keys.
#pragma once

#include <string>
#include <vector>

#include "doctor/pair.hpp"
#include "doctor/row.hpp"

namespace unisono::doctor {

struct HostReport {
  std::string name;
  std::vector<int> ranks = {};  // of the job; none: the machine was looked at alone
  std::vector<Row> rows = {};
};

struct PairReport {
  PairFacts facts;
  std::vector<Row> rows;
};

struct Report {
  std::string version;
  bool is_job = false;
  std::vector<Row> job = {};  // about all hosts together
  std::vector<HostReport> hosts = {};
  std::vector<PairReport> pairs = {};

  Verdict worst() const;
  int count(Verdict verdict) const;
};

// A row for each check whose finding should be the same everywhere and is not.
std::vector<Row> differences_between(const std::vector<HostReport>& hosts);

std::string text_of(const Report& report);
std::string json_of(const Report& report);
std::string text_of_rows(const std::vector<Row>& rows);  // a line each, and one for its advice

}  // namespace unisono::doctor
