// Two machines whose wire is a process of the test: it sees every packet, and may lose it, cut it up, alter it or answer it with a reset.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "tests/support/machines.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {

// Why this machine cannot make such a wire; empty: it can.
std::string cannot_relay();

// What happens on the wire, and what has happened; the test may change it at any time.
struct WireFaults {
  std::atomic<int> lost_percent;      // of all packets, by a sequence that is the same in each run
  std::atomic<bool> swallows[2];      // all that this machine sends vanishes
  std::atomic<int> longest_bytes;     // longer packets vanish; 0: none
  std::atomic<int> long_ones_pass[2];  // so many of those pass before, by the machine that sends them
  std::atomic<bool> one_byte_each;    // every byte of data in a packet of its own
  std::atomic<int> flips;             // so many of the next packets of much data get one bit turned over, and a checksum that fits
  std::atomic<int> resets;            // so many of the next packets of much data become resets for both ends
  std::atomic<int> idle_resets;       // the same of packets without data
  std::atomic<int> sealed_resets;     // the same of those that begin with a record of TLS, as notices do
  std::atomic<bool> tells_senders_only;  // resets are for who sent the packet; the other end hears nothing, as of a firewall that has forgotten the connection
  std::atomic<int> refusals;          // so many of the next connections over IPv4 are refused

  std::atomic<int64_t> packets, lost, too_long, cut_up, flipped, reset, refused;
};

class RelayedMachines : public TestMachines {
 public:
  static constexpr size_t much_data = 500;  // bytes of one packet
  RelayedMachines();
  ~RelayedMachines();
  WireFaults& faults() const { return faults_[0]; }

 private:
  void relay(const Descriptor ends[2]) const;

  SharedArray<WireFaults> faults_{1};
  pid_t process_ = -1;
};

}  // namespace unisono::testing
