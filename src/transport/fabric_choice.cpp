// See fabric_choice.hpp. One line an engine.
#include "transport/fabric_choice.hpp"

#include <fmt/core.h>

#include "transport/ucx.hpp"
#include "transport/ucx_library.hpp"

namespace unisono {
namespace {

constexpr const char* tcp_goes_on = "TCP carries what goes to other hosts";

// By which nobody is reached.
class NoFabric final : public Fabric {
 public:
  std::string address() const override { return ""; }
  Result<std::shared_ptr<Peer>> reach(const std::string&) override { return Status(ErrorCode::init, "there is no fabric here"); }
  Status send(Peer&, uint64_t, Channel::Sent, Channel::Sent) override { return {ErrorCode::init, "there is no fabric here"}; }
  std::shared_ptr<FabricMessage> receive(uint64_t) override { return nullptr; }
  void give_back(std::shared_ptr<FabricMessage>) override {}
  void arm() override {}
  int descriptor() const override { return -1; }
  bool rang() override { return false; }
  void look_after() override {}
  void finish(const Deadline&) override {}
  void close_in_child() override { is_in_child_ = true; }
  bool is_in_child() const override { return is_in_child_; }

 private:
  bool is_in_child_ = false;
};

bool asks_for_ucx(const Settings& settings) { return settings.transport == "ucx"; }

}  // namespace

Result<FabricHere> look_for_fabric(const Settings& settings, const Log& log) {
  const bool is_trusted = settings.fabric == "trusted";
  if (asks_for_ucx(settings) && !is_trusted)
    return Status(ErrorCode::init, "UNISONO_TRANSPORT=ucx sends what no one encrypts or checks on the way; where nobody but this job's user can reach the fabric, say so with UNISONO_FABRIC=trusted");
  if (asks_for_ucx(settings) && settings.encrypt)
    return Status(ErrorCode::init, "UNISONO_ENCRYPT=on and UNISONO_TRANSPORT=ucx contradict each other: UCX encrypts nothing; unset one of them");
  if (settings.transport == "tcp" || !is_trusted || settings.encrypt) return FabricHere::not_looked_for;
  auto transports = ucx_transports(settings, process_environment());
  if (!transports.ok()) return transports.status();
  const Status why_not = asks_for_ucx(settings) || !rdma_ports().empty() ? can_have_ucx(settings) : Status(ErrorCode::init, "this machine has no device for RDMA");
  if (why_not.ok()) return FabricHere::found;
  log.write(asks_for_ucx(settings) ? LogLevel::warning : LogLevel::info, fmt::format("{}: {}", why_not.message(), tcp_goes_on));
  return FabricHere::looked_for;
}

std::unique_ptr<Fabric> open_fabric(const FabricUse& use) {
  auto ucx = open_ucx(use);
  if (ucx.ok()) return std::move(*ucx);
  use.log.write(asks_for_ucx(use.settings) ? LogLevel::warning : LogLevel::info, fmt::format("{}: {}", ucx.status().message(), tcp_goes_on));
  return std::make_unique<NoFabric>();
}

}  // namespace unisono
