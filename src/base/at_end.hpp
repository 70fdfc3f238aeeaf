// Does something when the scope ends, however it ends.
#pragma once

#include <utility>

namespace unisono {

template <typename Deed>
class AtEnd {
 public:
  explicit AtEnd(Deed deed) : deed_(std::move(deed)) {}
  ~AtEnd() { deed_(); }
  AtEnd(const AtEnd&) = delete;

 private:
  Deed deed_;
};

}  // namespace unisono
