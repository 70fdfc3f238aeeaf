// As much of PMIx's binary interface as is used here: the library is built without PMIx's headers, and loads whatever libpmix.so.2 is on the machine. loaded_libraries_test
// compares this with the headers, where they are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unisono::pmix_abi {

using Code = int;
inline constexpr Code success = 0;
inline constexpr Code lost_connection = -61, lost_server = -101;  // events: the second is how PMIx before 4 calls it
inline constexpr Code event_is_dealt_with = -334;

inline constexpr uint32_t everybody = UINT32_MAX - 1;  // of a job, as a rank
inline constexpr uint8_t to_all = 3;                   // whom a value is for

struct Process {
  char job[256];
  uint32_t rank;
};

enum Type : uint16_t { boolean = 1, string = 3, integer = 6, unsigned_16 = 13, unsigned_32 = 14 };

struct Value {
  uint16_t type;
  union {
    bool flag;
    char* text;
    int number;
    uint16_t small;
    uint32_t natural;
    void* widest[3];
  };
};

struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};

inline constexpr const char* job_size = "pmix.job.size";      // ranks
inline constexpr const char* local_size = "pmix.local.size";  // those of them on this machine
inline constexpr const char* local_rank = "pmix.lrank";
inline constexpr const char* collect = "pmix.collect";        // a fence hands on what has been put

using Init = Code (*)(Process* me, Info*, size_t);
using Finalize = Code (*)(const Info*, size_t);
using Put = Code (*)(uint8_t whom, const char* key, Value*);
using Commit = Code (*)();
using Fence = Code (*)(const Process*, size_t, const Info*, size_t);
using Get = Code (*)(const Process*, const char* key, const Info*, size_t, Value**);  // the value is the caller's to free, and so is the text in it
using EventIsOver = void (*)(Code, Info*, size_t, void (*)(Code, void*), void*, void* data);
using OnEvent = void (*)(size_t registration, Code event, const Process* of, Info*, size_t, Info*, size_t, EventIsOver, void* data);
using OnRegistered = void (*)(Code, size_t registration, void*);
using Register = Code (*)(Code* events, size_t, Info*, size_t, OnEvent, OnRegistered, void*);  // older ones return nothing
using TextOfCode = const char* (*)(Code);

}  // namespace unisono::pmix_abi
