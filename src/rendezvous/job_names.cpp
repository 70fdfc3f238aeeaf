// Files and stores by which ranks meet; see job_names.hpp. Used by group/launch.cpp.
//
// Every rank counts the worlds that it has joined through a store, and its next one is the next after those. A join that
// failed is not counted, so whoever tries again, or was killed on the way and started again, comes to the same name.
#include "rendezvous/job_names.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/own_file.hpp"

namespace unisono {
namespace {

using distributed::Store;
using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr std::string_view name_start = "store ", file_scheme = "file://", tcp_scheme = "tcp://";

std::string joined_key(int rank) { return fmt::format("unisono/worlds_joined/{}", rank); }
std::string name_key(int64_t generation) { return fmt::format("unisono/world/{}/name", generation); }

Result<StoreAnswer> ask(Store& store, const StoreRequest& request) {
  auto answers = store.perform({request});
  if (!answers.ok()) return answers.status();
  return std::move(answers->front());
}

Result<std::string> random_name() {
  std::array<uint64_t, 2> words;
  if (getrandom(words.data(), sizeof(words), 0) != static_cast<ssize_t>(sizeof(words)))
    return Status(ErrorCode::resource, "the system gives no random numbers");
  return fmt::format("{}{:016x}{:016x}", name_start, words[0], words[1]);
}

// What random_name() draws, and nothing else: anybody may have written it.
bool is_name(const std::string& text) {
  constexpr size_t digits = 32;
  return text.size() == name_start.size() + digits && text.starts_with(name_start) &&
         text.find_first_not_of("0123456789abcdef", name_start.size()) == text.npos;
}

// A second at a time, since not every store hears that its user is interrupted.
Result<std::vector<std::string>> await_name(Store& store, const std::string& key, double timeout_s) {
  constexpr double slice_s = 1;
  const Deadline deadline = Deadline::in_seconds(timeout_s);
  InterruptWatch interrupts;
  while (true) {
    const double left_s = std::max(static_cast<double>(deadline.remaining_ns()) * 1e-9, 0.001);
    auto values = store.await_values({key}, std::min(left_s, slice_s));
    if (values.ok() || values.status().code() != ErrorCode::timeout || deadline.passed()) return values;
    if (interrupts.tripped()) return Status(ErrorCode::revoked, "interrupted while waiting for rank 0 to name the world");
  }
}

Result<StoreJob> as_named(StoreJob job) {
  if (is_name(job.name)) return job;
  return Status(ErrorCode::init, fmt::format("the store holds something else than the name of a world, {} bytes, under \"{}\"; who else writes there?",
                                             job.name.size(), name_key(job.generation)));
}

}  // namespace

Result<InitMethod> init_method_of(const std::string& text) {
  if (text.empty() || text == "env://") return InitMethod{};
  if (text == tcp_scheme) return Status(ErrorCode::argument, "init_method is \"tcp://\"; write tcp://host:port, rank 0's machine and a free port of it");
  if (text.starts_with(tcp_scheme)) return InitMethod{InitMethod::Kind::tcp, text.substr(tcp_scheme.size())};
  if (!text.starts_with(file_scheme))
    return Status(ErrorCode::argument, fmt::format("init_method is \"{}\"; there are \"env://\" (the default), \"tcp://host:port\" and "
                                                   "\"file:///path\", and store= instead of any of them", text));
  const std::string path = text.substr(file_scheme.size());
  if (!path.starts_with('/') || path.find('\0') != std::string::npos)
    return Status(ErrorCode::argument, fmt::format("init_method is \"{}\"; a file is named by its whole path, as in "
                                                   "\"file:///tmp/job\"", text));
  return InitMethod{InitMethod::Kind::file, path};
}

Result<FileJob> job_of_file(const std::string& path) {
  auto file = open_own_file(path, IfAbsent::make);
  if (!file.ok()) return file.status();
  struct stat about = {};
  if (fstat(file->number(), &about) != 0) return file_lost(path, "looking at it");
  return FileJob{fmt::format("file {}:{}", about.st_dev, about.st_ino), std::move(*file)};
}

Result<StoreJob> job_in_store(Store& store, const StoreMeeting& meeting) {
  auto joined = ask(store, {.kind = Kind::add, .key = joined_key(meeting.rank), .amount = 0});
  if (!joined.ok()) return joined.status();
  constexpr int64_t most_worlds = int64_t{1} << 48;
  if (joined->number < 0 || joined->number > most_worlds)
    return Status(ErrorCode::init, fmt::format("the store says that rank {} has joined {} worlds, which cannot be; who else writes under \"{}\"?",
                                               meeting.rank, joined->number, joined_key(meeting.rank)));
  StoreJob job{{}, joined->number + 1};
  if (meeting.rank == 0) {
    auto name = random_name();
    if (!name.ok()) return name.status();
    auto agreed = ask(store, {.kind = Kind::compare_set, .key = name_key(job.generation), .value = *name});
    if (!agreed.ok()) return agreed.status();
    job.name = agreed->value;
    return as_named(std::move(job));
  }
  auto values = await_name(store, name_key(job.generation), meeting.timeout_s);
  if (values.ok()) {
    job.name = values->front();
    return as_named(std::move(job));
  }
  if (values.status().code() != ErrorCode::timeout) return values.status();
  return Status(ErrorCode::init, fmt::format("rank {} of {} waited {} s for rank 0 to name world {} of the store; was it "
                                             "started, with the same store and prefix, and has it joined {} worlds there before, as "
                                             "this rank has?",
                                             meeting.rank, meeting.size, meeting.timeout_s, job.generation, joined->number));
}

// Everybody has the name by now, so that it can go: a store that serves many worlds does not grow.
Status count_joined(Store& store, const StoreMeeting& meeting, const StoreJob& job) {
  std::vector<StoreRequest> requests = {{.kind = Kind::add, .key = joined_key(meeting.rank), .amount = 1}};
  if (meeting.rank == 0) requests.push_back({.kind = Kind::delete_key, .key = name_key(job.generation)});
  return store.perform(requests).status();
}

// The next attempt says so if the store is gone.
void take_name_back(Store& store, const StoreMeeting& meeting, const StoreJob& job) {
  if (meeting.rank == 0) static_cast<void>(store.perform({{.kind = Kind::delete_key, .key = name_key(job.generation)}}).ok());
}

}  // namespace unisono
