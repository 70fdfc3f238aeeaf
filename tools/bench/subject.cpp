// The table of what can be timed; see subject.hpp.
#include "tools/bench/subject.hpp"

#include "tools/bench/case.hpp"
#include "tools/bench/ping_pong.hpp"

namespace unisono::tools {
namespace {

template <Collective collective>
std::unique_ptr<Subject> make_case(const SubjectRequest& request) {
  return std::make_unique<Case>(collective, request);
}

std::unique_ptr<Subject> make_ping_pong(const SubjectRequest& request) { return std::make_unique<PingPong>(request); }

double once(int) { return 1; }
double but_my_own(int ranks) { return (ranks - 1.0) / ranks; }
double but_my_own_twice(int ranks) { return 2 * but_my_own(ranks); }

constexpr SubjectKind kinds[] = {
    // name            made by                                  bus factor
    {"all_reduce",     make_case<Collective::all_reduce>,       but_my_own_twice},
    {"all_gather",     make_case<Collective::all_gather>,       but_my_own},
    {"reduce_scatter", make_case<Collective::reduce_scatter>,   but_my_own},
    {"reduce",         make_case<Collective::reduce>,           once},
    {"scatter",        make_case<Collective::scatter>,          but_my_own},
    {"gather",         make_case<Collective::gather>,           but_my_own},
    {"broadcast",      make_case<Collective::broadcast>,        once},
    {"all_to_all",     make_case<Collective::all_to_all>,       but_my_own},
    {"scan",           make_case<Collective::scan>,             once},
    {"exscan",         make_case<Collective::exscan>,           once},
    {"barrier",        make_case<Collective::barrier>,          once, /*sized=*/false},
    {"send",           make_ping_pong,                          once, /*sized=*/true, /*collective=*/false, /*ways=*/2},
};

}  // namespace

std::span<const SubjectKind> subject_kinds() { return kinds; }

const SubjectKind* subject_named(std::string_view name) {
  for (const SubjectKind& kind : kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

Tensor make_buffer(const SubjectRequest& request, int64_t count) {
  return request.shared ? alloc_shared(Shape{count}, DType::float32) : Tensor::zeros(DType::float32, Shape{count});
}

}  // namespace unisono::tools
