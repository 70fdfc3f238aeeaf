// Any Python object with the methods of torch's stores, as a store of ours.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "unisono/store.hpp"

namespace unisono::python {

// One of ours, or an adapter around what has set, get, add, check, compare_set and delete_key; ArgumentTypeError for anything
// else. None: null.
std::shared_ptr<distributed::Store> store_of(nanobind::handle store, const char* argument);

// Where the library used the store on a thread of its own and a method was interrupted there (KeyboardInterrupt, SystemExit): raises that here.
void raise_interruption_of(distributed::Store* store);

}  // namespace unisono::python
