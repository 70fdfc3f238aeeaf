// Stores, and joining, which may be by one of them.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "python/core/calls.hpp"
#include "python/core/foreign_store.hpp"

namespace unisono::python {
namespace {

using distributed::FileStore;
using distributed::HashStore;
using distributed::PrefixStore;
using distributed::Store;
using distributed::TCPStore;
using nb::handle;

nb::bytes to_bytes(const std::string& value) { return nb::bytes(value.data(), value.size()); }

auto any(const char* name) { return nb::arg(name).none(); }

std::vector<std::string> keys_of(handle keys) {
  std::vector<std::string> all;
  for (handle key : list_of(keys, "keys", "str")) all.push_back(text_of(key, "keys"));
  return all;
}

void bind_single(nb::class_<Store>& store) {
  store
      .def("set", [](Store& self, handle key, handle value) {
        const std::string name = text_of(key, "key"), bytes = bytes_of(value, "value");
        released([&] { return self.set(name, bytes), 0; });
      }, any("key"), any("value"), "Sets the key; the value is a str or bytes.")
      .def("get", [](Store& self, handle key) {
        const std::string name = text_of(key, "key");
        return to_bytes(released([&] { return self.get(name); }));
      }, any("key"), "Waits until the key is there and returns its value as bytes.")
      .def("add", [](Store& self, handle key, handle amount) {
        const std::string name = text_of(key, "key");
        const int64_t number = long_of(amount, "amount");
        return released([&] { return self.add(name, number); });
      }, any("key"), any("amount"), "Adds to a whole number, 0 where the key is absent, and returns the sum.")
      .def("compare_set", [](Store& self, handle key, handle expected, handle desired) {
        const std::string name = text_of(key, "key");
        const std::string before = bytes_of(expected, "expected_value"), after = bytes_of(desired, "desired_value");
        return to_bytes(released([&] { return self.compare_set(name, before, after); }));
      }, any("key"), any("expected_value"), any("desired_value"),
         "Sets the key where its value is the expected one, or where it is absent and that is empty; returns what stands then.")
      .def("delete_key", [](Store& self, handle key) {
        const std::string name = text_of(key, "key");
        return released([&] { return self.delete_key(name); });
      }, any("key"), "Whether the key was there.")
      .def("append", [](Store& self, handle key, handle value) {
        const std::string name = text_of(key, "key"), bytes = bytes_of(value, "value");
        released([&] { return self.append(name, bytes), 0; });
      }, any("key"), any("value"), "Appends to what is there, if anything.");
}

void bind_several(nb::class_<Store>& store) {
  store
      .def("wait", [](Store& self, handle keys, handle timeout) {
        const std::vector<std::string> names = keys_of(keys);
        const std::optional<double> timeout_s = seconds_of(timeout);
        released([&] { return self.wait(names, timeout_s), 0; });
      }, any("keys"), any("timeout") = nb::none(), "Returns once all keys are there.")
      .def("check", [](Store& self, handle keys) {
        const std::vector<std::string> names = keys_of(keys);
        return released([&] { return self.check(names); });
      }, any("keys"), "Whether all keys are there.")
      .def("multi_get", [](Store& self, handle keys) {
        const std::vector<std::string> names = keys_of(keys);
        nb::list values;
        for (const std::string& value : released([&] { return self.multi_get(names); })) values.append(to_bytes(value));
        return values;
      }, any("keys"), "The values of all keys, once all are there.")
      .def("multi_set", [](Store& self, handle keys, handle values) {
        const std::vector<std::string> names = keys_of(keys);
        std::vector<std::string> bytes;
        for (handle value : list_of(values, "values", "str or bytes")) bytes.push_back(bytes_of(value, "values"));
        released([&] { return self.multi_set(names, bytes), 0; });
      }, any("keys"), any("values"), "Sets all keys at once.")
      .def("num_keys", [](Store& self) { return released([&] { return self.num_keys(); }); }, "How many keys there are.")
      .def("clone", [](nb::object self) { return self; }, "The store itself, for it may be used by any number of threads.")
      .def("has_extended_api", [](Store&) { return true; }, "Whether append(), multi_get() and multi_set() work: they do.")
      .def("set_timeout", [](Store& self, handle timeout) {
        const std::optional<double> seconds = seconds_of(timeout);
        if (!seconds) fail(ErrorCode::argument_type, "timeout is None; give seconds or a datetime.timedelta");
        self.set_timeout(*seconds);
      }, any("timeout"), "How long get() and wait() wait: seconds or a timedelta.")
      .def_prop_ro("timeout", [](Store& self) {
        const nb::object span = nb::module_::import_("datetime").attr("timedelta");
        constexpr double longest_s = 999'999'999.0 * 24 * 60 * 60;  // a timedelta holds no more days
        return self.timeout() < longest_s ? span(0, self.timeout()) : nb::object(span.attr("max"));
      }, "How long get() and wait() wait.");
}

void bind_tcp_store(nb::module_& module) {
  nb::class_<TCPStore, Store>(module, "TCPStore", "A store for the processes of many machines, which one of them, the master, keeps.")
      .def("__init__", [](TCPStore* self, handle host_name, handle port, handle world_size, handle is_master, handle timeout, handle wait) {
        distributed::TCPStoreOptions options;
        const std::string host = text_of(host_name, "host_name");
        const int number = whole_of(port, "port");
        options.world_size = whole_or_none(world_size, "world_size");
        options.is_master = flag_of(is_master, "is_master");
        options.timeout_s = seconds_of(timeout).value_or(options.timeout_s);
        options.wait_for_workers = flag_of(wait, "wait_for_workers");
        without_gil([&] { return new (self) TCPStore(host, number, options), 0; });
      }, any("host_name"), any("port"), any("world_size") = nb::none(), any("is_master") = false, any("timeout") = nb::none(),
         any("wait_for_workers") = true)
      .def_prop_ro("host", &TCPStore::host, "The master's host, as it was given.")
      .def_prop_ro("port", &TCPStore::port, "The master's port.");
}

}  // namespace

void bind_stores(nb::module_& module) {
  nb::class_<Store> store(module, "Store", "A few keys with their values that all ranks of a job can reach.");
  bind_single(store);
  bind_several(store);
  nb::class_<HashStore, Store>(module, "HashStore", "A store for the threads of one process.").def(nb::init<>());
  nb::class_<FileStore, Store>(module, "FileStore", "A store for the processes of one machine and one user, over one file.")
      .def("__init__", [](FileStore* self, handle file_name, handle world_size) {
        const std::string path = text_of(file_name, "file_name");
        new (self) FileStore(path, whole_of(world_size, "world_size"));
      }, any("file_name"), any("world_size") = -1)
      .def_prop_ro("path", &FileStore::path, "The file.");
  bind_tcp_store(module);
  nb::class_<PrefixStore, Store>(module, "PrefixStore", "A part of another store: every key gets the prefix in front.")
      .def("__init__", [](PrefixStore* self, handle prefix, handle other) {
        std::shared_ptr<Store> whole = store_of(other, "store");
        if (!whole) fail(ErrorCode::argument_type, "store is None; give the store of which this is a part");
        new (self) PrefixStore(text_of(prefix, "prefix"), std::move(whole));
      }, any("prefix"), any("store"))
      .def_prop_ro("underlying_store", &PrefixStore::underlying_store, "The other store.");
}

void bind_joining(nb::module_& module) {
  define(module, "init_process_group", +[](handle rank, handle size, handle init_method, handle timeout, handle store) {
    distributed::InitOptions options;
    options.rank = whole_or_none(rank, "rank");
    options.world_size = whole_or_none(size, "world_size");
    if (options.rank == -1) options.rank.reset();  // torch's way to leave it to the launcher
    if (options.world_size == -1) options.world_size.reset();
    if (!init_method.is_none()) options.init_method = text_of(init_method, "init_method");
    options.timeout_s = seconds_of(timeout);
    options.store = store_of(store, "store");
    try {
      released([&] { return distributed::init_process_group(options), 0; });
    } catch (const Error&) {
      raise_interruption_of(options.store.get());
      throw;
    }
  });
  define(module, "destroy_process_group", +[](handle group) {
    const GroupHandle members = group_of(group);
    released([&] { return distributed::destroy_process_group(members), 0; });
    forget_finished();
  });
}

}  // namespace unisono::python
