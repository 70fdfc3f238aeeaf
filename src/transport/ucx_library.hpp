// libucp.so.0, loaded while the program runs, and what it is told to be and not to be.
#pragma once

#include <string>
#include <vector>

#include "transport/ucx_abi.hpp"
#include "unisono/settings.hpp"

namespace unisono {

struct UcxLibrary {
  ucx_abi::ReadConfig read_config;
  ucx_abi::ModifyConfig modify_config;
  ucx_abi::ReleaseConfig release_config;
  ucx_abi::Init init;
  ucx_abi::Cleanup cleanup;
  ucx_abi::CreateWorker create_worker;
  ucx_abi::DestroyWorker destroy_worker;
  ucx_abi::GetAddress get_address;
  ucx_abi::ReleaseAddress release_address;
  ucx_abi::Progress progress;
  ucx_abi::GetDescriptor get_descriptor;
  ucx_abi::Arm arm;
  ucx_abi::CreateEndpoint create_endpoint;
  ucx_abi::CloseEndpoint close_endpoint;
  ucx_abi::Send send;
  ucx_abi::Probe probe;
  ucx_abi::Receive receive;
  ucx_abi::CheckRequest check_request;
  ucx_abi::FreeRequest free_request;
  ucx_abi::VersionText version;
  ucx_abi::PrintContext print_context;
  ucx_abi::TextOfCode text_of_code;
};

Result<UcxLibrary> load_ucx(const Settings& settings);

// Which of UCX's transports may be used, beyond what the user has named. InitError: tcp is named, and must not be used.
Result<std::string> ucx_transports(const Settings& settings, const Environment& environment);
Result<ucx_abi::Context*> make_ucx_context(const UcxLibrary& library, const Settings& settings, int ranks);

// What UCX finds on this machine, of what it may use; why not, where it cannot be loaded.
struct UcxFindings {
  std::string version;
  std::vector<std::string> devices;  // "rc_mlx5/mlx5_0:1", as UCX names them

  bool leads_elsewhere() const;  // one of them is more than this machine's memory
};
Result<UcxFindings> look_for_ucx(const Settings& settings);

// A port of a device for RDMA, as /sys says.
struct RdmaPort {
  std::string device, number, state, rate, layer;  // mlx5_0, 1, ACTIVE, 100 Gb/sec (4X EDR), InfiniBand
};
std::vector<RdmaPort> rdma_ports(const std::string& root = "/");

}  // namespace unisono
