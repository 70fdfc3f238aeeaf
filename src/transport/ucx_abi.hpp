// As much of UCX's binary interface as is used here: the library is built without UCX's headers, and loads whatever libucp.so.0 is on the machine. Structures begin with a mask of the
// fields that are filled, so those that later versions add are not asked for. loaded_libraries_test compares this with the headers, where those are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unisono::ucx_abi {

using Code = int8_t;
inline constexpr Code success = 0, in_progress = 1, unreachable = -6;
inline constexpr intptr_t last_code = -100;  // a pointer of this value or above, up to -1, is an error

inline constexpr unsigned major_version = 1, minor_version = 10;  // of which all that is used here is a part

struct Config;
struct Context;
struct Worker;
struct Endpoint;
struct Address;
struct Received;  // a message that has come

inline constexpr uint64_t tags = 1 << 0, wake_up = 1 << 4;
struct Parameters {
  static constexpr uint64_t has_features = 1 << 0, has_expected_endpoints = 1 << 6;
  uint64_t filled;
  uint64_t features;
  size_t request_bytes;
  void (*request_init)(void*);
  void (*request_cleanup)(void*);
  uint64_t tag_sender_mask;
  int workers_shared;
  size_t expected_endpoints;
  size_t expected_here;
  const char* name;
};

inline constexpr uint32_t serialized = 1;  // several threads, one at a time
struct WorkerParameters {
  static constexpr uint64_t has_threads = 1 << 0;
  uint64_t filled;
  uint32_t threads;
  uint64_t cores[16];
  unsigned events;
  void* user_data;
  int event_descriptor;
  uint64_t flags;
  const char* name;
  size_t alignment;
  uint64_t client;
};

struct SocketAddress {
  const void* address;
  uint32_t bytes;
};
using Failed = void (*)(void* argument, Endpoint*, Code);
struct EndpointParameters {
  static constexpr uint64_t has_address = 1 << 0, has_error_mode = 1 << 1, has_error_handler = 1 << 2;
  static constexpr uint32_t tells_of_failures = 1;
  uint64_t filled;
  const Address* address;
  uint32_t error_mode;
  Failed failed;
  void* argument;
  void* user_data;
  unsigned flags;
  SocketAddress socket_address;
  void* connection_request;
  const char* name;
  SocketAddress local_socket_address;
};

struct TagInfo {
  uint64_t sender_tag;
  size_t bytes;
};
using Sent = void (*)(void* request, Code, void* user_data);
using Came = void (*)(void* request, Code, const TagInfo*, void* user_data);
struct RequestParameters {
  static constexpr uint32_t has_callback = 1 << 1, has_user_data = 1 << 2, has_flags = 1 << 4;
  static constexpr uint32_t at_once = 1;  // of closing: what is on its way is given up
  uint32_t filled;
  uint32_t flags;
  void* request;
  union {
    Sent sent;
    Came came;
  };
  uint64_t datatype;
  void* user_data;
  void* reply_buffer;
  uint32_t memory_type;
  void* info;
  void* memory;
};

using ReadConfig = Code (*)(const char* prefix, const char* file, Config**);
using ModifyConfig = Code (*)(Config*, const char* name, const char* value);
using ReleaseConfig = void (*)(Config*);
using Init = Code (*)(unsigned major, unsigned minor, const Parameters*, const Config*, Context**);
using Cleanup = void (*)(Context*);
using CreateWorker = Code (*)(Context*, const WorkerParameters*, Worker**);
using DestroyWorker = void (*)(Worker*);
using GetAddress = Code (*)(Worker*, Address**, size_t* bytes);
using ReleaseAddress = void (*)(Worker*, Address*);
using Progress = unsigned (*)(Worker*);
using GetDescriptor = Code (*)(Worker*, int*);
using Arm = Code (*)(Worker*);
using CreateEndpoint = Code (*)(Worker*, const EndpointParameters*, Endpoint**);
using CloseEndpoint = void* (*)(Endpoint*, const RequestParameters*);
using Send = void* (*)(Endpoint*, const void*, size_t, uint64_t tag, const RequestParameters*);
using Probe = Received* (*)(Worker*, uint64_t tag, uint64_t mask, int take, TagInfo*);
using Receive = void* (*)(Worker*, void*, size_t, Received*, const RequestParameters*);
using CheckRequest = Code (*)(void* request);
using FreeRequest = void (*)(void* request);
using VersionText = const char* (*)();
using PrintContext = void (*)(const Context*, void* file);
using TextOfCode = const char* (*)(Code);

}  // namespace unisono::ucx_abi
