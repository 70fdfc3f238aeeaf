// Memory in many places, taken as one row of bytes.
#include "engine/pieces.hpp"

#include <gtest/gtest.h>

#include <string>

namespace unisono {
namespace {

// Letters to cut spans from; text_of() reads a stretch span by span.
struct Letters {
  std::string text = "abcdefghijklmnopqrstuvwxyz";
  std::byte* data() { return reinterpret_cast<std::byte*>(text.data()); }
  Bytes operator()(int64_t first, int64_t count) { return {data() + first, count}; }
};

std::string text_of(const Stretch& stretch) {
  std::string text(static_cast<size_t>(stretch.bytes), '?');
  copy_bytes(Stretch::in_one_place(reinterpret_cast<std::byte*>(text.data()), stretch.bytes), stretch);
  return text;
}

using Parts = std::vector<std::vector<Bytes>>;

TEST(Pieces, of_one_span_are_cut_into_equal_parts) {
  Letters letters;
  const Pieces pieces(letters.data(), 12);
  EXPECT_FALSE(pieces.is_list());
  EXPECT_EQ(text_of(pieces.whole()), "abcdefghijkl");
  EXPECT_EQ(text_of(pieces.part(1, 3)), "efgh");
  EXPECT_EQ(pieces.part_offset(2, 3), 8);
  EXPECT_EQ(pieces.longest_part(3), 4);
}

TEST(Pieces, of_a_list_are_its_spans) {
  Letters letters;
  const Pieces pieces(std::vector<Bytes>{letters(4, 2), letters(0, 0), letters(10, 3)});
  EXPECT_EQ(text_of(pieces.part(0, 3)), "ef");
  EXPECT_EQ(text_of(pieces.part(1, 3)), "");
  EXPECT_EQ(text_of(pieces.part(2, 3)), "klm");
  EXPECT_EQ(text_of(pieces.all()), "efklm");
  EXPECT_EQ(pieces.part_offset(2, 3), 2);
  EXPECT_EQ(pieces.longest_part(3), 3);
}

TEST(Pieces, of_several_spans_a_part_are_read_as_one_row) {
  Letters letters;
  const Pieces pieces(Parts{{letters(20, 2), letters(0, 0), letters(3, 1)}, {}, {letters(7, 2), letters(9, 2), letters(0, 1)}});
  EXPECT_EQ(pieces.bytes(), 8);
  EXPECT_EQ(text_of(pieces.all()), "uvdhijka");
  EXPECT_EQ(text_of(pieces.part(0, 3)), "uvd");
  EXPECT_EQ(text_of(pieces.part(1, 3)), "");
  EXPECT_EQ(text_of(pieces.part(2, 3)), "hijka");
  EXPECT_EQ(pieces.part(2, 3).here, 4) << "spans that continue each other are one";
  EXPECT_EQ(pieces.part_offset(1, 3), 3);
  EXPECT_EQ(pieces.part_offset(2, 3), 3);
  EXPECT_EQ(pieces.longest_part(3), 5);
}

TEST(Pieces, without_a_byte_in_them_have_empty_parts) {
  Letters letters;
  const Pieces pieces(Parts{{letters(0, 0), letters(5, 0)}, {letters(1, 0)}});
  EXPECT_TRUE(pieces.is_list());
  EXPECT_EQ(pieces.bytes(), 0);
  EXPECT_EQ(pieces.part(1, 2).bytes, 0);
  EXPECT_EQ(pieces.whole().bytes, 0);
  EXPECT_EQ(pieces.cut(0, 3).bytes, 0);
}

TEST(Pieces, are_cut_at_the_same_bytes_however_they_lie) {
  std::string text(1000, ' ');
  for (size_t index = 0; index < text.size(); ++index) text[index] = static_cast<char>('a' + index % 23);
  auto* data = reinterpret_cast<std::byte*>(text.data());
  const Pieces whole(data, 1000);
  std::string apart;  // the same, with a gap after every seventh
  for (size_t index = 0; index < text.size(); index += 7) apart += text.substr(index, 7) + "-";
  std::vector<Bytes> spans;
  for (int64_t from = 0; from < 1000; from += 7)
    spans.push_back({reinterpret_cast<std::byte*>(apart.data()) + from / 7 * 8, std::min<int64_t>(7, 1000 - from)});
  const Pieces many(Parts{spans});
  for (int count : {1, 3, 8, 40})
    for (int index = 0; index < count; ++index) EXPECT_EQ(text_of(many.cut(index, count)), text_of(whole.cut(index, count)));
  for (int64_t from : {0, 1, 7, 13, 699, 993, 999})
    for (int64_t bytes : {0, 1, 6, 300}) {
      if (from + bytes > 1000) continue;
      EXPECT_EQ(text_of(many.whole().from(from, bytes)), text.substr(static_cast<size_t>(from), static_cast<size_t>(bytes)));
      EXPECT_EQ(text_of(many.cut(1, 3).from(5, 100)), text_of(whole.cut(1, 3).from(5, 100)));
    }
}

TEST(Stretches, are_gone_through_in_step) {
  Letters letters;
  const Pieces one(Parts{{letters(0, 3), letters(10, 4)}}), other(Parts{{letters(20, 2), letters(15, 2), letters(5, 1)}});
  std::vector<std::string> steps;
  in_step(one.whole(), other.whole(), [&](std::byte* first, std::byte* second, int64_t done, int64_t bytes) {
    const char *a = reinterpret_cast<char*>(first), *b = reinterpret_cast<char*>(second);
    steps.push_back(std::to_string(done) + std::string(a, static_cast<size_t>(bytes)) + std::string(b, static_cast<size_t>(bytes)));
  });
  EXPECT_EQ(steps, (std::vector<std::string>{"0abuv", "2cp", "3kq", "4lf"}));
}

TEST(Stretches, overlap_where_they_share_a_byte) {
  Letters letters;
  const Pieces list(Parts{{letters(0, 3), letters(10, 4), letters(20, 2)}}), same(Parts{{letters(13, 2), letters(6, 2)}});
  EXPECT_TRUE(list.whole().from(0, 4).overlaps(list.whole().from(3, 2)));
  EXPECT_FALSE(list.whole().from(0, 4).overlaps(list.whole().from(4, 5)));
  EXPECT_TRUE(list.whole().overlaps(same.whole())) << "in different lists";
  EXPECT_FALSE(list.whole().from(0, 6).overlaps(same.whole()));
  EXPECT_TRUE(list.whole().overlaps(Stretch::in_one_place(letters.data() + 21, 1)));
  EXPECT_FALSE(list.whole().overlaps(Stretch::in_one_place(letters.data() + 3, 7)));
  EXPECT_FALSE(list.whole().overlaps(Stretch{}));
}

}  // namespace
}  // namespace unisono
