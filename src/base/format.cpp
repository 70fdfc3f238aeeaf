// The compiled part of fmt, so that it is inside the library and no other package's copy is met: Debian has it as a shared
// library only, and header-only use would compile it again in every file. The same as fmt's own src/format.cc, for char.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template dragonbox::decimal_fp<float> dragonbox::to_decimal(float number) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double number) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref locale);
template char decimal_point_impl(locale_ref locale);
template void buffer<char>::append(const char* first, const char* last);
#if FMT_VERSION < 110000
template void vformat_to(buffer<char>& out, string_view text, basic_format_args<buffer_context<char>> values, locale_ref locale);
#endif

}  // namespace detail
FMT_END_NAMESPACE
