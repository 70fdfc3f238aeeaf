// Whom a connector speaks for and whom it looks for, as it says in the clear before TLS begins: "unisono/1 <job's id> <from> <to>". Functions of text,
// which anybody may have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unisono {

// Who connects to whom; ranks, or one of these.
struct TlsEnds {
  static constexpr int store = -1, client = -2;  // the job's store, and whoever has a question to it
  static constexpr int nobody = INT32_MIN;       // of a connector that has not said who it is

  int from = 0, to = 0;
  bool operator==(const TlsEnds&) const = default;
};

inline constexpr size_t job_id_digits = 8;

struct Identity {
  std::string job_id;  // hexadecimal digits
  TlsEnds ends;

  std::string text() const;
  static std::optional<Identity> parse(std::string_view text);  // nothing but what text() writes
};

}  // namespace unisono
