// Everything that reads what others have written, given what none of ours writes: the environment, plans, a FileStore's file, a TCPStore's
// frames, messages at the meeting place, announcements in shared memory. Each reader must take it or say what is wrong; AddressSanitizer
// sees to the rest. What is written is close to the truth: values of the right kind, mutated.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/hash.hpp"
#include "base/legible.hpp"
#include "base/sizes.hpp"
#include "group/announcement.hpp"
#include "planner/overrides.hpp"
#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"
#include "rendezvous/launchers.hpp"
#include "rendezvous/store_frames.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/raw_store_client.hpp"
#include "tests/support/test_world.hpp"
#include "tests/torture/mutations.hpp"
#include "tests/torture/rounds.hpp"
#include "transport/local_socket.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

// What somebody might have typed, or a script have put together.
std::string random_value(Dice& dice) {
  static const std::vector<std::string> usual = {
      "", "0", "1", "2", "-1", "4", "64K", "1M", "9223372036854775807", "9223372036854775808", "1e308", "1e999", "nan", "inf", "-0", "0x10",
      " 1", "1 ", "on", "off", "auto", "yes", "debug", "warning", "localhost", "10.0.0.1", "::1", "[::1]:80", "5,4(x3)", "2(x2147483648)", "MS_WORKER",
      "MS_SCHED", "all_reduce=ring", "all_reduce:0-64K=two_shot,broadcast=direct", "torchrun", "unisono run", "/tmp/x", "../x", "join:1"};
  const std::string& value = dice.pick(usual);
  return dice.chance(40) ? mutated(dice, value) : value;
}

void expect_words(const Status& status, ErrorCode code) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_FALSE(status.message().empty());
}

int64_t read_settings(uint64_t seed) {
  Dice dice(seed);
  Environment environment;
  for (const SettingText& row : describe(Settings{}))
    if (dice.chance(20)) environment[row.variable] = random_value(dice);
  auto settings = settings_from(environment);
  if (!settings.ok()) {
    expect_words(settings.status(), ErrorCode::init);
    return 1;
  }
  EXPECT_GT(settings->timeout_s, 0);
  EXPECT_GT(settings->join_timeout_s, 0);
  EXPECT_GE(settings->tile_bytes, 0);
  Environment again;  // what it says of itself is read as the same
  for (const SettingText& row : describe(*settings)) again[row.variable] = row.value;
  auto second = settings_from(again);
  EXPECT_TRUE(second.ok()) << second.status().text();
  return 1;
}

std::string random_plan(Dice& dice) {
  std::string text;
  for (int parts = dice.between(0, 4); parts > 0; --parts) {
    text += name_of(dice.pick(all_collectives()));
    if (dice.chance(60)) text += ":" + (dice.chance(70) ? format_size(dice.of_any_magnitude(60)) : "") + "-" + (dice.chance(70) ? format_size(dice.of_any_magnitude(60)) : "");
    text += "=" + std::string(dice.one_of<const char*>({"ring", "direct", "two_shot", "one_shot", "tree", ""}));
    if (parts > 1) text += dice.one_of<const char*>({",", " , ", ",,"});
  }
  return dice.chance(60) ? mutated(dice, text) : text;
}

int64_t read_plan(uint64_t seed) {
  Dice dice(seed);
  const std::string text = random_plan(dice);
  auto rules = PlannerRules::parse(text);
  if (!rules.ok()) {
    expect_words(rules.status(), ErrorCode::init);
    return 1;
  }
  for (const Override& rule : rules->overrides) {
    EXPECT_TRUE(rule.algorithm) << text;
    EXPECT_TRUE(0 <= rule.from_bytes && rule.from_bytes <= rule.up_to_bytes) << text;
  }
  return 1;
}

int64_t read_launchers(uint64_t seed) {
  static const std::vector<std::string> variables = {
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE",
      "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
      "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "MS_ROLE", "MS_NODE_ID", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "UNISONO_JOB",
      "UNISONO_LAUNCHER"};
  Dice dice(seed);
  Environment environment;
  const int density = dice.between(5, 90);
  for (const std::string& name : variables)
    if (dice.chance(density)) environment[name] = dice.chance(50) ? std::to_string(dice.below(5)) : random_value(dice);
  auto info = launch_info(environment);
  if (!info.ok()) {
    expect_words(info.status(), ErrorCode::init);
    return 1;
  }
  EXPECT_TRUE((0 <= info->rank && info->rank < info->size) || !info->is_rank);
  EXPECT_TRUE(-1 <= info->local_rank && info->local_rank < info->size);
  EXPECT_TRUE(info->size == 1 || !info->job.empty());
  return 1;
}

int64_t read_announcement(uint64_t seed) {
  Dice dice(seed);
  Announcement sayings[2];
  for (Announcement& saying : sayings) {
    saying.kind = dice.pick(all_collectives());
    saying.dtype = dice.pick(all_dtypes());
    saying.dims = dice.between(-1, most_announced_dims);
    std::string bytes(reinterpret_cast<const char*>(&saying), sizeof(saying));
    bytes = dice.chance(10) ? random_bytes(dice, sizeof(saying)) : mutated(dice, bytes);
    bytes.resize(sizeof(saying));
    std::memcpy(static_cast<void*>(&saying), bytes.data(), sizeof(saying));
    EXPECT_FALSE(describe(saying).empty());
  }
  EXPECT_FALSE(difference({0, &sayings[0]}, {1, &sayings[1]}).empty());
  return 2;
}

TEST(Readers, of_settings) { run_rounds("environments", read_settings); }
TEST(Readers, of_plans) { run_rounds("plans", read_plan); }
TEST(Readers, of_launchers) { run_rounds("launchers", read_launchers); }
TEST(Readers, of_announcements) { run_rounds("announcements", read_announcement); }

// A file as its users left it; then one of them is damaged. With the right hashes, so that more is read than the first of them.
class StoreFile {
 public:
  StoreFile() : path_(std::filesystem::temp_directory_path() / ("readers-" + std::to_string(getpid()))) {
    std::filesystem::remove(path_);
    distributed::FileStore store(path_);
    store.set("color", "red");
    store.append("long", std::string(300, 'x'));
    store.add("count", 7);
    store.delete_key("color");
    store.multi_set({"a", "b"}, {"1", ""});
    bytes_ = contents();
  }
  ~StoreFile() { std::filesystem::remove(path_); }
  const std::string& bytes() const { return bytes_; }

  void read(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    try {
      distributed::FileStore store(path_);
      store.num_keys();
      if (store.check({"count"})) store.get("count");
      store.set("more", "value");
      EXPECT_EQ(store.get("more"), "value");
    } catch (const Error& error) {
      EXPECT_NE(error.status().message().find(path_), std::string::npos) << error.what();
    }
  }

 private:
  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path_, bytes_;
};

// The head: 24 bytes and their hash; a frame: length, hash of the payload, hash of both with the place in this file. See file_log.cpp.
void mend_hashes(std::string& bytes) {
  auto number = [&](size_t at) { uint64_t value; std::memcpy(&value, &bytes[at], sizeof(value)); return value; };
  auto write = [&](size_t at, uint64_t value) { std::memcpy(&bytes[at], &value, sizeof(value)); };
  if (bytes.size() < 32) return;
  write(24, hash_bytes(bytes.data(), 24));
  const uint64_t identity = number(16);
  for (size_t at = 32; at + 24 <= bytes.size();) {
    const uint64_t length = number(at), left = bytes.size() - at - 24;
    if (length <= left) write(at + 8, hash_text(std::string_view(bytes).substr(at + 24, length)));
    write(at + 16, hash_bytes(&bytes[at], 16, hash_combine(identity, at)));
    if (length > left) return;
    at += 24 + length;
  }
}

TEST(Readers, of_files) {
  StoreFile file;
  run_rounds("files", [&](uint64_t seed) {
    Dice dice(seed);
    std::string bytes = dice.chance(5) ? random_bytes(dice, dice.between(0, 100)) : mutated(dice, file.bytes());
    if (dice.chance(70)) mend_hashes(bytes);
    file.read(bytes);
    return 1;
  });
}

using distributed::StoreRequest;

std::string random_text(Dice& dice) { return random_bytes(dice, dice.chance(90) ? dice.below(20) : dice.of_any_magnitude(11)); }

std::vector<std::string> random_texts(Dice& dice) {
  std::vector<std::string> texts(static_cast<size_t>(dice.below(5)));
  for (std::string& text : texts) text = random_text(dice);
  return texts;
}

// A frame as one of the two sides of a TCPStore writes it.
std::string random_frame(Dice& dice) {
  switch (dice.between(1, 8)) {
    case 1: return hello_frame({.protocol = dice.chance(90) ? 1u : 2u, .rank = dice.chance(90) ? TlsEnds::client : dice.between(-3, 3), .is_new_user = dice.chance(50)});
    case 2: return welcome_frame({.epoch = dice.seed(), .library = random_bytes(dice, dice.below(64))});
    case 3: {
      std::vector<StoreRequest> requests(static_cast<size_t>(dice.below(5)));
      for (StoreRequest& request : requests)
        request = {static_cast<StoreRequest::Kind>(dice.below(8)), random_text(dice), random_text(dice), random_text(dice), dice.of_any_magnitude(60)};
      return *perform_frame(requests);
    }
    case 4: return *await_frame({dice.below(1'000'000), random_texts(dice)});
    case 5: {
      std::vector<distributed::StoreAnswer> answers(static_cast<size_t>(dice.below(5)));
      for (auto& answer : answers) answer = {dice.chance(50), random_text(dice), dice.of_any_magnitude(60)};
      return *answers_frame(answers);
    }
    case 6: return *values_frame(random_texts(dice));
    case 7: return missing_frame({0, 4, 2});
    default: return refused_frame({static_cast<ErrorCode>(dice.between(1, static_cast<int>(ErrorCode::internal))), random_text(dice)});
  }
}

template <typename T>
std::string written_again(const Result<T>& read, const std::function<std::string(const T&)>& write) {
  if (read.ok()) return write(read.value());
  expect_words(read.status(), ErrorCode::protocol);
  return {};
}

// What a frame was read as, written again; nothing where it could not be read.
std::string read_and_written(const StoreFrame& frame) {
  uint32_t count = 0;  // as many as it says, for the readers that are told how many there must be
  if (frame.body.size() >= sizeof(count)) std::memcpy(&count, frame.body.data(), sizeof(count));
  const std::string_view body = frame.body;
  switch (frame.kind) {
    case StoreFrameKind::hello: {
      auto hello = read_hello(body);
      const bool is_ours = !hello.ok() || hello->protocol == store_protocol;  // of others there may be more
      const std::string written = written_again<StoreHello>(hello, hello_frame);
      return is_ours ? written : std::string();
    }
    case StoreFrameKind::welcome: return written_again<StoreWelcome>(read_welcome(body), welcome_frame);
    case StoreFrameKind::perform:
      return written_again<std::vector<StoreRequest>>(read_perform(body), [](const auto& requests) { return *perform_frame(requests); });
    case StoreFrameKind::await: return written_again<StoreAwait>(read_await(body), [](const StoreAwait& await) { return *await_frame(await); });
    case StoreFrameKind::answers:
      return written_again<std::vector<distributed::StoreAnswer>>(read_answers(body, count), [](const auto& answers) { return *answers_frame(answers); });
    case StoreFrameKind::values:
      return written_again<std::vector<std::string>>(read_values(body, count), [](const auto& values) { return *values_frame(values); });
    case StoreFrameKind::missing: return written_again<std::vector<uint32_t>>(read_missing(body, 5), missing_frame);
    case StoreFrameKind::refused: {
      const Status refusal = read_refused(body);
      EXPECT_FALSE(refusal.ok());
      return refusal.code() == ErrorCode::protocol || !is_legible(body.substr(8)) ? std::string() : refused_frame(refusal);
    }
  }
  return {};
}

// In pieces; what can be read is written as the same bytes.
int64_t read_frames(uint64_t seed) {
  Dice dice(seed);
  std::string stream;
  for (int left = dice.between(1, 4); left > 0; --left) stream += dice.chance(70) ? mutated(dice, random_frame(dice)) : random_frame(dice);
  StoreFrameReader reader(dice.chance(20) ? most_hello_bytes : most_frame_bytes);
  int64_t frames = 0;
  for (size_t at = 0; at < stream.size();) {
    const size_t piece = std::min(stream.size() - at, static_cast<size_t>(dice.of_any_magnitude(8)));
    reader.feed(std::as_bytes(std::span(stream)).subspan(at, piece));
    at += piece;
    for (;;) {
      auto frame = reader.next();
      if (!frame.ok()) return expect_words(frame.status(), ErrorCode::protocol), frames;
      if (!*frame) break;
      ++frames;
      const std::string again = read_and_written(**frame);
      EXPECT_TRUE(again.empty() || again.substr(frame_head_bytes) == (*frame)->body) << static_cast<int>((*frame)->kind);
    }
  }
  return frames;
}

TEST(Readers, of_frames) { run_rounds("frames", read_frames); }

// Whoever has the secret and speaks nonsense is answered or loses its connection, and the store goes on.
TEST(Readers, at_a_store) {
  const auto store = master({.caps = {.keys = 100, .bytes = 1_MiB}});
  run_rounds("visits", [&](uint64_t seed) {
    Dice dice(seed);
    RawStoreClient visitor(store->port());
    visitor.does_not_wait();
    if (dice.chance(80)) visitor.say_what_goes(hello_frame({.rank = TlsEnds::client}));
    for (int left = dice.between(1, 6); left > 0; --left) visitor.say_what_goes(dice.chance(60) ? mutated(dice, random_frame(dice)) : random_frame(dice));
    EXPECT_LE(store->num_keys(), 100);
    return 1;
  });
}

// Says something like a hello, with something like its descriptors.
void say_nonsense(Dice& dice, const Descriptor& socket) {
  JoinMessage hello;
  hello.kind = static_cast<JoinKind>(dice.below(7));
  hello.rank = dice.between(-1, 3);
  hello.size = dice.between(0, 3);
  hello.pid = getpid();
  std::string bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
  if (dice.chance(80)) bytes = mutated(dice, bytes);
  const Descriptor kinds[] = {Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC)), Descriptor(memfd_create("nonsense", MFD_CLOEXEC)),
                              Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  std::vector<int> sent;
  for (int count = dice.between(0, 4); count > 0; --count) sent.push_back(kinds[dice.below(3)].number());
  (void)send_message(socket, {std::as_bytes(std::span(bytes)), sent}, Deadline::in_seconds(1));  // the host may have closed the door meanwhile
}

// The ranks meet, or each is told why not.
int64_t meet_among_nonsense(uint64_t seed) {
  Dice dice(seed);
  const std::string job = unique_job();
  Settings settings = Worlds::test_settings();
  settings.join_timeout_s = 5;  // of a rank whose host was ended by what a stranger said
  Outcomes outcomes(2);
  SharedArray<std::atomic<int>> ended(1);
  Children children(2, [&](int rank) {
    outcomes.note(rank, [&] { throw_if_error(join_as(rank, 2, job, settings).status()); });
    ended[0] += 1;
  });
  std::vector<Descriptor> kept;
  const int visits = dice.between(1, 12);
  int said = 0;
  EXPECT_TRUE(await([&] {
    auto visit = connect_to(meeting_place(job));
    if (visit.ok() && visit->attempt == Attempt::done) {
      say_nonsense(dice, visit->socket);
      said += 1;
      if (dice.chance(50)) kept.push_back(std::move(visit->socket));
    }
    return said == visits || ended[0] == 2;
  }));
  kept.clear();
  expect_all_succeeded(children.wait());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(outcomes.of(rank).was_made());
    EXPECT_TRUE(outcomes.of(rank).code == ErrorCode::ok || outcomes.of(rank).message[0] != 0) << rank;
  }
  return said;
}

TEST(Readers, at_the_meeting_place) { run_rounds("visits", meet_among_nonsense); }

}  // namespace
}  // namespace unisono::testing
