// The one table of settings. The environment is read in environment.cpp.
#include "unisono/settings.hpp"

#include <charconv>
#include <functional>

#include <fmt/core.h>

#include "base/check.hpp"
#include "base/sizes.hpp"

namespace unisono {
namespace {

Status bad_value(std::string_view variable, std::string_view value, std::string_view wanted) {
  return {ErrorCode::init, fmt::format("{}=\"{}\" is not {}; correct or unset it", variable, value, wanted)};
}

bool parse(std::string_view text, double& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

bool parse(std::string_view text, int64_t& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

// One setting: how it is called, what it means, and how its field is written and read.
struct Row {
  std::string_view variable, wanted, sentence;
  std::function<bool(Settings&, std::string_view)> read;
  std::function<std::string(const Settings&)> write;
};

Row seconds(std::string_view variable, double Settings::*field, std::string_view sentence) {
  return {variable, "a number of seconds", sentence,
          [field](Settings& settings, std::string_view text) { return parse(text, settings.*field); },
          [field](const Settings& settings) { return fmt::format("{}", settings.*field); }};
}

// Not 0, which would end every call that has to wait, and which some take for "without end": that is inf.
Row deadline(std::string_view variable, double Settings::*field, std::string_view sentence) {
  Row row = seconds(variable, field, sentence);
  row.wanted = "a number of seconds above 0";
  row.read = [field](Settings& settings, std::string_view text) { return parse(text, settings.*field) && settings.*field > 0; };
  return row;
}

Row count(std::string_view variable, int64_t Settings::*field, std::string_view sentence) {
  return {variable, "a whole number", sentence,
          [field](Settings& settings, std::string_view text) { return parse(text, settings.*field); },
          [field](const Settings& settings) { return fmt::format("{}", settings.*field); }};
}

Row call_number(std::string_view variable, int64_t Settings::*field, std::string_view sentence) {
  Row row = count(variable, field, sentence);
  row.wanted = "a call number: 1 to 4294967295";
  row.read = [field](Settings& settings, std::string_view text) {
    return parse(text, settings.*field) && settings.*field >= 1 && settings.*field <= UINT32_MAX;
  };
  return row;
}

Row few(std::string_view variable, int64_t Settings::*field, std::string_view sentence) {
  Row row = count(variable, field, sentence);
  row.wanted = "a whole number from 1 to 16";
  row.read = [field](Settings& settings, std::string_view text) {
    return parse(text, settings.*field) && settings.*field >= 1 && settings.*field <= most_sockets_per_peer;
  };
  return row;
}

Row size(std::string_view variable, int64_t Settings::*field, std::string_view sentence) {
  return {variable, "a size such as 64K or 1M", sentence,
          [field](Settings& settings, std::string_view text) {
            auto bytes = parse_size(text);
            if (bytes) settings.*field = *bytes;
            return bytes.has_value();
          },
          [field](const Settings& settings) { return format_size(settings.*field); }};
}

Row flag(std::string_view variable, bool Settings::*field, std::string_view sentence) {
  return {variable, "on or off", sentence,
          [field](Settings& settings, std::string_view text) {
            settings.*field = text == "on" || text == "1";
            return settings.*field || text == "off" || text == "0";
          },
          [field](const Settings& settings) { return std::string(settings.*field ? "on" : "off"); }};
}

Row text(std::string_view variable, std::string Settings::*field, std::string_view sentence,
         std::vector<std::string_view> choices = {}) {
  return {variable, "one of the values listed by `unisono settings`", sentence,
          [field, choices](Settings& settings, std::string_view text) {
            settings.*field = text;
            if (choices.empty()) return true;
            for (std::string_view choice : choices)
              if (choice == text) return true;
            return false;
          },
          [field](const Settings& settings) { return settings.*field; }};
}

// How a secret is handed over is listed, and neither read, kept nor shown here: see src/trust/secret.hpp.
Row of_the_secret(std::string_view variable, std::string_view sentence) {
  return {variable, "", sentence, [](Settings&, std::string_view) { return true; },
          [](const Settings&) { return std::string("not shown"); }};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      deadline("UNISONO_TIMEOUT", &Settings::timeout_s, "seconds until a call gives up and says who is missing"),
      deadline("UNISONO_JOIN_TIMEOUT", &Settings::join_timeout_s, "seconds until joining gives up, unless the program says"),
      seconds("UNISONO_WARN_AFTER", &Settings::warn_after_s, "seconds until a waiting call says whom it waits for"),
      text("UNISONO_PLAN", &Settings::plan, "overrides of the choice of algorithm: all_reduce:0-64K=ring,…"),
      size("UNISONO_TILE", &Settings::tile_bytes, "bytes of one slot in a tile; 0 lets the planner choose"),
      flag("UNISONO_REPRODUCIBLE", &Settings::reproducible,
           "on: the bits of a reduction depend on inputs and number of ranks alone, not on size, plan or tiles"),
      count("UNISONO_SPIN_US", &Settings::spin_us, "microseconds of polling before a waiter sleeps, with a core each"),
      count("UNISONO_CORES", &Settings::cores, "usable cores; 0 asks the affinity mask and the cgroup's quota"),
      size("UNISONO_ARENA", &Settings::arena_bytes, "address space of a rank's arena; memory is taken as it is used"),
      seconds("UNISONO_IDLE", &Settings::idle_s, "seconds without calls after which a group gives the memory of its tiles back"),
      text("UNISONO_PEER_READS", &Settings::peer_reads,
           "reading a peer's private memory with process_vm_readv: auto or off", {"auto", "off"}),
      text("UNISONO_LOG", &Settings::log, "what is written to standard error: error, warning, info or debug",
           {"error", "warning", "info", "debug"}),
      call_number("UNISONO_FIRST_CALL", &Settings::first_call, "the number of a group's first call, to test what happens when numbers wrap"),
      text("UNISONO_STORE", &Settings::store, "host:port of rank 0's machine where ranks of several machines meet, if not where the launcher says"),
      text("UNISONO_SOCKET_IFNAME", &Settings::socket_ifname,
           "which network interfaces a rank listens at and tells others of: eth,ib (names begin so), =eth0, ^docker,^veth (all but these)"),
      text("UNISONO_ADVERTISE", &Settings::advertise,
           "addresses under which other machines reach this rank, with or without :port, told instead of those that are found (NAT, containers)"),
      text("UNISONO_PORT_RANGE", &Settings::port_range, "ports that ranks listen at, 20000-20063; each rank of a machine takes one"),
      flag("UNISONO_ENCRYPT", &Settings::encrypt, "on: between hosts all bytes stay in TLS; off: connections open in TLS, and data follows in the clear"),
      flag("UNISONO_INSECURE", &Settings::insecure,
           "on: where no secret is found, ranks on several machines let in whoever reaches them; only for networks that nobody else is on"),
      flag("UNISONO_MINORITY", &Settings::minority,
           "on: ranks that were cut off from the larger part of their group may agree and shrink all the same; the others may do so, too"),
      few("UNISONO_SOCKETS_PER_PEER", &Settings::sockets_per_peer,
          "connections between two ranks on different hosts, 1 to 16: more where the network gives one connection less than the wire has"),
      text("UNISONO_TRANSPORT", &Settings::transport,
           "what carries data between hosts: tcp; ucx (InfiniBand, RoCE, …; needs UNISONO_FABRIC=trusted); auto: ucx where the fabric is trusted and has RDMA, else tcp",
           {"auto", "tcp", "ucx"}),
      text("UNISONO_FABRIC", &Settings::fabric,
           "trusted: nobody but you reaches the network that UCX drives, which encrypts and checks nothing; untrusted: UCX is not used", {"untrusted", "trusted"}),
      text("UNISONO_UCX_LIBRARY", &Settings::ucx_library, "where libucp.so.0 lies, if the system does not find it"),
      flag("UNISONO_UCX_TCP", &Settings::ucx_tcp, "tests only, on: UCX may use its own TCP, whose listener lets in whoever reaches it"),
      text("UNISONO_PRETEND_HOSTS", &Settings::pretend_hosts,
           "to try programs and tests: which ranks of one machine treat each other as being on one host: 2,2, 2x4 or 0/1/0/1"),
      text("UNISONO_TEST_STREAMS", &Settings::test_streams,
           "tests only: what channels move bytes with: rings, sockets (plain, on the loopback interface), rough:SEED"),
      text("UNISONO_FAULT", &Settings::fault, "builds with fault points only: point:hit[:rank[:stop]] kills the process there, or stops it"),
      text("UNISONO_JOB", &Settings::job, "the job's name, where no launcher gives one"),
      of_the_secret("UNISONO_SECRET_FD", "the job secret: an inherited descriptor to read it from; looked for in this order, then in "
                                         "~/.config/unisono/secret; see `unisono secret check`"),
      of_the_secret("UNISONO_SECRET_FILE", "the job secret: a file of yours with mode 0600, as `unisono secret new` makes it"),
      of_the_secret("UNISONO_SECRET", "the job secret itself, 64 hexadecimal digits; a file is safer"),
  };
  return table;
}

}  // namespace

Result<Settings> settings_from(const Environment& environment) {
  Settings settings;
  for (const Row& row : rows()) {
    auto entry = environment.find(row.variable);
    if (entry == environment.end()) continue;
    if (!row.read(settings, entry->second)) return bad_value(row.variable, entry->second, row.wanted);
  }
  return settings;
}

std::vector<SettingText> describe(const Settings& settings) {
  std::vector<SettingText> texts;
  const Settings defaults;
  for (const Row& row : rows())
    texts.push_back({std::string(row.variable), row.write(settings), row.write(defaults), std::string(row.sentence)});
  return texts;
}

}  // namespace unisono
