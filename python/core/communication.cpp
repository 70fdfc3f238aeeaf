// unisono.communication: joining and groups by name; and stores.
#include "unisono/communication.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"
#include "unisono/store.hpp"

namespace unisono::python {
namespace {

using distributed::FileStore;
using distributed::HashStore;
using distributed::PrefixStore;
using distributed::Store;

std::string bytes_of(nb::handle value) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyUnicode_Check(value.ptr())) {
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (!text) throw nb::python_error();
    return {text, static_cast<size_t>(size)};
  }
  if (PyBytes_AsStringAndSize(value.ptr(), &data, &size) != 0) {
    PyErr_Clear();
    fail(ErrorCode::argument_type, "a value of a store is a str or bytes");
  }
  return {data, static_cast<size_t>(size)};
}

nb::bytes to_bytes(const std::string& value) { return nb::bytes(value.data(), value.size()); }

std::vector<std::string> all_bytes_of(nb::handle values) {
  std::vector<std::string> all;
  for (nb::handle value : values) all.push_back(bytes_of(value));
  return all;
}

void bind_store(nb::module_& module) {
  using Keys = std::vector<std::string>;
  nb::class_<Store>(module, "Store", "A few keys with their values that all ranks of a job can reach.")
      .def("set", [](Store& store, const std::string& key, nb::handle value) {
        const std::string bytes = bytes_of(value);
        released([&] { return store.set(key, bytes), 0; });
      }, nb::arg("key"), nb::arg("value"), "Sets the key; the value is a str or bytes.")
      .def("get", [](Store& store, const std::string& key) { return to_bytes(released([&] { return store.get(key); })); },
           nb::arg("key"), "Waits until the key is there and returns its value as bytes.")
      .def("add", [](Store& store, const std::string& key, int64_t amount) { return released([&] { return store.add(key, amount); }); },
           nb::arg("key"), nb::arg("amount"), "Adds to a whole number, 0 where the key is absent, and returns the sum.")
      .def("compare_set", [](Store& store, const std::string& key, nb::handle expected, nb::handle desired) {
        const std::string before = bytes_of(expected), after = bytes_of(desired);
        return to_bytes(released([&] { return store.compare_set(key, before, after); }));
      }, nb::arg("key"), nb::arg("expected_value"), nb::arg("desired_value"), "Sets the key where its value is the expected one.")
      .def("wait", [](Store& store, const Keys& keys, nb::handle timeout) {
        const std::optional<double> timeout_s = seconds_of(timeout);
        released([&] { return store.wait(keys, timeout_s), 0; });
      }, nb::arg("keys"), nb::arg("timeout") = nb::none(), "Returns once all keys are there.")
      .def("check", [](Store& store, const Keys& keys) { return released([&] { return store.check(keys); }); }, nb::arg("keys"),
           "Whether all keys are there.")
      .def("delete_key", [](Store& store, const std::string& key) { return released([&] { return store.delete_key(key); }); },
           nb::arg("key"), "Whether the key was there.")
      .def("num_keys", [](Store& store) { return released([&] { return store.num_keys(); }); }, "How many keys there are.")
      .def("append", [](Store& store, const std::string& key, nb::handle value) {
        const std::string bytes = bytes_of(value);
        released([&] { return store.append(key, bytes), 0; });
      }, nb::arg("key"), nb::arg("value"), "Appends to what is there, if anything.")
      .def("multi_get", [](Store& store, const Keys& keys) {
        nb::list values;
        for (const std::string& value : released([&] { return store.multi_get(keys); })) values.append(to_bytes(value));
        return values;
      }, nb::arg("keys"), "The values of all keys, once all are there.")
      .def("multi_set", [](Store& store, const Keys& keys, nb::handle values) {
        const std::vector<std::string> bytes = all_bytes_of(values);
        released([&] { return store.multi_set(keys, bytes), 0; });
      }, nb::arg("keys"), nb::arg("values"), "Sets all keys at once.")
      .def("set_timeout", [](Store& store, nb::handle timeout) { store.set_timeout(seconds_of(timeout).value_or(300)); },
           nb::arg("timeout"), "How long get() and wait() wait: seconds or a timedelta.")
      .def_prop_ro("timeout", [](Store& store) {
        return nb::module_::import_("datetime").attr("timedelta")(0, store.timeout());
      }, "How long get() and wait() wait.");
}

}  // namespace

void bind_stores(nb::module_& module) {
  bind_store(module);
  nb::class_<HashStore, Store>(module, "HashStore", "A store for the threads of one process.").def(nb::init<>());
  nb::class_<FileStore, Store>(module, "FileStore", "A store for the processes of one machine and one user, over one file.")
      .def(nb::init<const std::string&, int>(), nb::arg("file_name"), nb::arg("world_size") = -1)
      .def_prop_ro("path", &FileStore::path, "The file.");
  nb::class_<PrefixStore, Store>(module, "PrefixStore", "A part of another store: every key gets the prefix in front.")
      .def(nb::init<std::string, std::shared_ptr<Store>>(), nb::arg("prefix"), nb::arg("store"))
      .def_prop_ro("underlying_store", &PrefixStore::underlying_store, "The other store.");
}

void bind_communication(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("communication");
  using Name = nb::handle;
  module.def("init", [] { released([] { return communication::init(), 0; }); });
  module.def("release", [] {
    released([] { return communication::release(), 0; });
    forget_finished();
  });
  module.def("get_rank", [](Name group) { return communication::get_rank(group_name_of(group)); }, nb::arg().none());
  module.def("get_group_size", [](Name group) { return communication::get_group_size(group_name_of(group)); }, nb::arg().none());
  module.def("get_local_rank", [](Name group) { return communication::get_local_rank(group_name_of(group)); }, nb::arg().none());
  module.def("get_local_rank_size", [](Name group) { return communication::get_local_rank_size(group_name_of(group)); }, nb::arg().none());
  module.def("create_group", [](Name group, const std::vector<int>& ranks) {
    const std::string name = group_name_of(group);
    released([&] { return communication::create_group(name, ranks), 0; });
  });
  module.def("destroy_group", [](Name group) {
    const std::string name = group_name_of(group);
    released([&] { return communication::destroy_group(name), 0; });
  });
  module.def("get_world_rank_from_group_rank",
             [](Name group, int rank) { return communication::get_world_rank_from_group_rank(group_name_of(group), rank); }, nb::arg().none(), nb::arg());
  module.def("get_group_rank_from_world_rank",
             [](int rank, Name group) { return communication::get_group_rank_from_world_rank(rank, group_name_of(group)); }, nb::arg(), nb::arg().none());
  module.def("get_process_group_ranks", [](Name group) { return communication::get_process_group_ranks(group_name_of(group)); }, nb::arg().none());
}

}  // namespace unisono::python
