// Signatures of calls: making, hashing, comparing, describing. See announcement.hpp; next: group.cpp.
#include "group/announcement.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/hash.hpp"
#include "base/legible.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

constexpr uint32_t refused_hash = 0;

uint32_t folded(uint64_t hash) {
  const auto half = static_cast<uint32_t>(hash ^ hash >> 32);
  return half == refused_hash ? 1 : half;
}

std::string shape_text(const Announcement& announcement) {
  if (announcement.dims < 0) return fmt::format("[{}]", announcement.count);
  int dims = std::clamp(announcement.dims, 0, most_announced_dims);
  return fmt::format("({})", fmt::join(announcement.shape, announcement.shape + dims, ", "));
}

// The function that was called, where it takes more than one call.
std::string_view kind_text(const Announcement& announcement) {
  if (announcement.purpose == Purpose::monitored) return "monitored_barrier";
  return announcement.purpose == Purpose::split_sizes ? "all_to_all" : name_of(announcement.kind);
}

// Written by a peer, perhaps to the end.
std::string_view name_of_reduction(const Announcement& announcement) {
  return {announcement.text, strnlen(announcement.text, sizeof(announcement.text))};
}

std::string op_text(const Announcement& announcement) {
  std::string text(name_of(announcement.op));
  if (announcement.op == ReduceKind::user)
    return fmt::format("\"{}\" ({}commutative)", legible(name_of_reduction(announcement)), announcement.commutative ? "" : "not ");
  return announcement.op == ReduceKind::premul_sum ? fmt::format("{}({})", text, announcement.factor) : text;
}

std::string tensors_text(const Announcement& announcement) {
  if (announcement.tensors == many_tensors) return fmt::format("{} tensors or more", many_tensors);
  return announcement.tensors == 1 ? "1 tensor" : fmt::format("{} tensors", announcement.tensors);
}

bool rooted(const Announcement& announcement) { return cuts_of(announcement.kind).rooted; }
bool reduces(const Announcement& announcement) { return cuts_of(announcement.kind).reduces; }

// A peer wrote these bytes: what does not name anything must not be looked up.
bool sensible(const Announcement& announcement) {
  return static_cast<size_t>(announcement.kind) < all_collectives().size() &&
         static_cast<size_t>(announcement.dtype) < all_dtypes().size() && announcement.purpose <= Purpose::monitored &&
         static_cast<size_t>(announcement.op) < all_reduce_kinds().size();
}

void announce_reduction(const UserReduction& reduction, Announcement& announcement) {
  static_assert(longest_reduction_name < sizeof(announcement.text));
  announcement.commutative = reduction.commutative == Commutative::yes ? 1 : 0;
  std::memcpy(announcement.text, reduction.name.data(), std::min(reduction.name.size(), longest_reduction_name));
}

}  // namespace

bool can_be(const Announcement& announcement) {
  return sensible(announcement) && announcement.state <= CallState::refused && announcement.dims >= -1 && announcement.dims <= most_announced_dims &&
         announcement.commutative <= 1 && announcement.count >= 0 && announcement.text[sizeof(announcement.text) - 1] == 0;
}

uint32_t Announcement::hash() const { return state == CallState::refused ? refused_hash : folded(long_hash()); }

uint64_t Announcement::long_hash() const {
  uint64_t head;
  std::memcpy(&head, this, sizeof(head));
  uint64_t bits;
  std::memcpy(&bits, &factor, sizeof(bits));
  uint64_t hash = hash_combine(hash_combine(head, static_cast<uint64_t>(count)), bits ^ static_cast<uint64_t>(plan) << 32 ^ sizes);
  if (op == ReduceKind::user) hash = hash_combine(hash, hash_text(name_of_reduction(*this)) * 2 + commutative);
  if (purpose != Purpose::data) hash = hash_combine(hash, static_cast<uint64_t>(purpose));
  if (dims >= 0) hash = hash_combine(hash, hash_bytes(shape, static_cast<size_t>(dims) * sizeof(shape[0])));
  return hash;
}

uint32_t next_hash(uint32_t hash) { return folded(hash_combine(hash, hash)); }

size_t Announcement::used_bytes() const {
  if (state == CallState::refused || op == ReduceKind::user) return sizeof(Announcement);  // they have a text
  return dims >= 0 ? offsetof(Announcement, text) : offsetof(Announcement, shape);
}

bool says_the_same(const Announcement& one, const Announcement& other) {
  static_assert(std::has_unique_object_representations_v<decltype(Announcement::shape)> && offsetof(Announcement, shape) == 48);
  return one.used_bytes() == other.used_bytes() && std::memcmp(&one, &other, one.used_bytes()) == 0;
}

Announcement announce(const Call& call, uint32_t plan) {
  Announcement announcement;
  Cuts cuts = cuts_of(call.kind);
  announcement.kind = call.kind;
  announcement.purpose = call.purpose;
  announcement.dtype = call.dtype;
  announcement.count = call.splits ? call.splits->total_count() : call.count;
  announcement.plan = plan;
  if (cuts.reduces) {
    announcement.op = call.op.kind;
    if (call.op.kind == ReduceKind::premul_sum) announcement.factor = call.op.factor;
    if (call.op.user_defined) announce_reduction(*call.op.user_defined, announcement);
  }
  if (cuts.rooted) announcement.root = call.root;
  if (call.compare_shapes) {
    announcement.dims = static_cast<int32_t>(std::min<size_t>(call.shape.size(), most_announced_dims));
    for (int dim = 0; dim < announcement.dims; ++dim) announcement.shape[dim] = call.shape[static_cast<size_t>(dim)];
  }
  announcement.sizes = call.sizes_hash;
  announcement.tensors = static_cast<uint16_t>(std::min<uint32_t>(call.tensors, many_tensors));
  return announcement;
}

Announcement announce_refusal(Collective kind, const std::string& why) {
  Announcement announcement;
  announcement.state = CallState::refused;
  announcement.kind = kind;
  size_t length = std::min(why.size(), sizeof(announcement.text) - 1);
  std::memcpy(announcement.text, why.data(), length);
  return announcement;
}

std::string describe(const Announcement& announcement) {
  if (!sensible(announcement)) return "a call that cannot be";
  std::string text(kind_text(announcement));
  if (announcement.kind == Collective::barrier) return text;
  if (announcement.purpose == Purpose::split_sizes) return text + " with split sizes";
  text += fmt::format(" {}{}", name_of(announcement.dtype), shape_text(announcement));
  if (announcement.tensors != 1) text += " in " + tensors_text(announcement);
  if (reduces(announcement)) text += " " + op_text(announcement);
  if (rooted(announcement)) text += fmt::format(" root {}", announcement.root);
  return text;
}

std::string difference(const NamedAnnouncement& one, const NamedAnnouncement& other) {
  const Announcement &a = *one.announcement, &b = *other.announcement;
  auto differ = [&](std::string_view field, const auto& left, const auto& right) {
    return fmt::format("{}: rank {} = {}, rank {} = {}", field, one.rank, left, other.rank, right);
  };
  if (!sensible(a) || !sensible(b)) return differ("call", describe(a), describe(b));
  std::string_view kind = kind_text(a);
  auto field = [&](std::string_view name) { return fmt::format("{} {}", kind, name); };
  if (a.kind != b.kind || a.purpose != b.purpose) return differ("call", describe(a), describe(b));
  if (a.dtype != b.dtype) return differ(field("dtype"), name_of(a.dtype), name_of(b.dtype));
  if (a.op != b.op || a.factor != b.factor || op_text(a) != op_text(b)) return differ(field("op"), op_text(a), op_text(b));
  if (a.root != b.root) return differ(field("root"), a.root, b.root);
  if (a.tensors != b.tensors)
    return fmt::format("{} list: rank {} gave {}, rank {} gave {}", kind, one.rank, tensors_text(a), other.rank, tensors_text(b));
  if (a.count != b.count) return differ(field("count"), a.count, b.count);
  const auto compared = static_cast<size_t>(std::clamp(a.dims, 0, most_announced_dims));  // the rest was never written
  if (a.dims != b.dims || std::memcmp(a.shape, b.shape, compared * sizeof(a.shape[0])) != 0)
    return differ(field("shape"), shape_text(a), shape_text(b));
  if (a.sizes != b.sizes && a.tensors != 1)
    return fmt::format("{} sizes of the list: rank {} and rank {} each gave {} with {} elements in all, divided differently", kind,
                       one.rank, other.rank, tensors_text(a), a.count);
  if (a.sizes != b.sizes) return fmt::format("{} sizes of the list: rank {} and rank {} give different ones", kind, one.rank, other.rank);
  if (a.plan != b.plan)
    return fmt::format("{} plan: rank {} and rank {} chose different algorithms; are UNISONO_PLAN, UNISONO_TILE "
                       "and UNISONO_REPRODUCIBLE the same on both?", kind, one.rank, other.rank);
  return differ("call", describe(a), describe(b));
}

}  // namespace unisono
