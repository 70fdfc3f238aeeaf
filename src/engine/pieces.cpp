// Lists of spans: see pieces.hpp. Next: call.cpp.
#include "engine/pieces.hpp"

#include "base/check.hpp"

namespace unisono {
namespace {

bool meet(const std::byte* one, int64_t one_bytes, const std::byte* other, int64_t other_bytes) {
  return one < other + other_bytes && other < one + one_bytes;
}

int64_t position_of(const Stretch& stretch) { return stretch.span->begin + (stretch.data - stretch.span->data); }

}  // namespace

void Stretch::enter_next_span() {
  CHECK(span != nullptr);
  do ++span;
  while (span->bytes == 0);
  data = span->data;
  here = std::min(span->bytes, bytes);
}

Stretch Stretch::farther_from(int64_t offset, int64_t length) const {
  CHECK(span != nullptr && offset + length <= bytes);
  return layout->at(position_of(*this) + offset, length);
}

// Tensors of one list lie apart, so two stretches of it meet only where their places in it do.
bool Stretch::overlaps(const Stretch& other) const {
  if (bytes <= 0 || other.bytes <= 0) return false;
  if (is_in_one_place() && other.is_in_one_place()) return meet(data, bytes, other.data, other.bytes);
  if (layout == other.layout && span && other.span) {
    const int64_t mine = position_of(*this), theirs = position_of(other);
    return mine < theirs + other.bytes && theirs < mine + bytes;
  }
  for (Stretch one = *this; one.bytes > 0; one.drop(one.here))
    for (Stretch two = other; two.bytes > 0; two.drop(two.here))
      if (meet(one.data, one.here, two.data, two.here)) return true;
  return false;
}

Stretch Layout::at(int64_t position, int64_t bytes) const {
  if (bytes <= 0) return {};
  auto after = std::upper_bound(spans.begin(), spans.end(), position,
                                [](int64_t wanted, const Span& span) { return wanted < span.begin; });
  CHECK(after != spans.begin());
  const Span& span = *(after - 1);
  const int64_t skipped = position - span.begin;
  return {span.data + skipped, bytes, std::min(span.bytes - skipped, bytes), &span, this};
}

Pieces::Pieces(const std::vector<Bytes>& parts) {
  auto layout = std::make_shared<Layout>();
  layout->spans.reserve(parts.size());
  for (const Bytes& part : parts) {
    layout->spans.push_back({part.data, part.bytes, whole_.bytes});
    whole_.bytes += part.bytes;
  }
  if (!parts.empty()) layout_ = std::move(layout);
}

Pieces::Pieces(const std::vector<std::vector<Bytes>>& parts) {
  auto layout = std::make_shared<Layout>();
  std::vector<Span>& spans = layout->spans;
  for (const std::vector<Bytes>& part : parts) {
    layout->firsts.push_back(spans.size());
    for (const Bytes& span : part) {
      if (span.bytes == 0) continue;
      if (spans.size() > layout->firsts.back() && spans.back().data + spans.back().bytes == span.data)
        spans.back().bytes += span.bytes;
      else
        spans.push_back({span.data, span.bytes, whole_.bytes});
      whole_.bytes += span.bytes;
    }
  }
  layout->firsts.push_back(spans.size());
  layout_ = std::move(layout);
}

int64_t Pieces::begin_of(size_t part) const {
  const size_t span = layout_->firsts.empty() ? part : layout_->firsts[part];
  return span < layout_->spans.size() ? layout_->spans[span].begin : whole_.bytes;
}

Stretch Pieces::listed_part(size_t index) const {
  if (!layout_->firsts.empty()) return layout_->at(begin_of(index), begin_of(index + 1) - begin_of(index));
  const Span& span = layout_->spans[index];
  return Stretch::in_one_place(span.data, span.bytes);
}

int64_t Pieces::longest_part(int count) const {
  if (!is_list()) return whole_.bytes / count;
  const size_t parts = layout_->firsts.empty() ? layout_->spans.size() : layout_->firsts.size() - 1;
  int64_t longest = 0;
  for (size_t part = 0; part < parts; ++part) longest = std::max(longest, begin_of(part + 1) - begin_of(part));
  return longest;
}

}  // namespace unisono
