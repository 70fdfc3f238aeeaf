// See pmix_launch.hpp.
#include "rendezvous/pmix_launch.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "rendezvous/launch_values.hpp"
#include "rendezvous/launchers.hpp"
#include "rendezvous/pmix.hpp"
#include "rendezvous/pmix_abi.hpp"

namespace unisono {

Result<Environment> with_what_pmix_says(Environment environment, const Deadline& deadline) {
  if (!is_launched_by_pmix(environment)) return environment;
  auto pmix = Pmix::of_process(deadline);
  if (!pmix.ok()) return pmix.status();
  const std::string_view rank = text_of(environment, "PMIX_RANK"), job = text_of(environment, "PMIX_NAMESPACE");
  if ((*pmix)->job() != job || fmt::to_string((*pmix)->rank()) != rank)
    return Status(ErrorCode::init, fmt::format("PMIX_RANK={} and PMIX_NAMESPACE={} speak of a launcher, and PMIx of rank {} of \"{}\"; unset the variables if another launcher left them behind",
                                               rank, job, (*pmix)->rank(), (*pmix)->job()));
  const auto enter = [&](std::string_view name, const Result<int>& number) {
    if (number.ok()) environment[std::string(name)] = fmt::to_string(number.value());
    return number.status();
  };
  RETURN_IF_ERROR(enter(pmix_job_size, (*pmix)->number_of_job(pmix_abi::job_size, deadline)));
  RETURN_IF_ERROR(enter(pmix_local_size, (*pmix)->number_of_job(pmix_abi::local_size, deadline)));
  RETURN_IF_ERROR(enter(pmix_local_rank, (*pmix)->number_of_rank(pmix_abi::local_rank, deadline)));
  return environment;
}

}  // namespace unisono
