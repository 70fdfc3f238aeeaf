// By which secret a TCPStore knows its clients.
#pragma once

#include <memory>
#include <string_view>

#include "trust/trust.hpp"

namespace unisono {

// `address` is for the sentence that says what is missing. On a loopback address there may be no secret: then nobody from elsewhere can
// connect, nor another user of this machine.
Result<std::shared_ptr<const Trust>> trust_for_store(std::string_view job, std::string_view address, bool is_loopback);

}  // namespace unisono
