// As much of munge's binary interface as is used here: the library is built without munge's header, and loads whatever libmunge.so.2 is on the machine. loaded_libraries_test compares this
// with the header, where that is.
#pragma once

#include <sys/types.h>

namespace unisono::munge_abi {

using Code = int;
inline constexpr Code success = 0, replayed = 17;

using Option = int;
inline constexpr Option cipher = 0, seconds_to_live = 4, only_for_user = 9;
inline constexpr int aes_128 = 4;

struct Context;
using MakeContext = Context* (*)();
using FreeContext = void (*)(Context*);
using Set = Code (*)(Context*, Option, ...);
using TextOfContext = const char* (*)(Context*);
using TextOfCode = const char* (*)(Code);
using Encode = Code (*)(char** credential, Context*, const void* payload, int byte_count);
using Decode = Code (*)(const char* credential, Context*, void** payload, int* byte_count, uid_t*, gid_t*);

}  // namespace unisono::munge_abi
