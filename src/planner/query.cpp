// See query.hpp.
#include "planner/query.hpp"

namespace unisono {

int64_t shown_bytes(const Query& query) {
  switch (query.collective) {
    case Collective::all_reduce:
    case Collective::scan:
    case Collective::exscan:
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::all_gather:
    case Collective::gather:
      return query.bytes;
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return query.bytes * query.ranks;
    case Collective::barrier:
      return 0;
  }
  return query.bytes;
}

}  // namespace unisono
