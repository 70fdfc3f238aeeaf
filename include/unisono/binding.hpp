// What bindings to other languages need beside the dialects.
#pragma once

#include <string>

#include "unisono/group.hpp"
#include "unisono/status.hpp"
#include "unisono/types.hpp"

namespace unisono {

// Asked every 100 ms or so by each thread that has waited in a call for 10 ms, on that thread, with no lock held that another
// call would need. True: the thread gives up. The group of its call is broken as by abort(): the other ranks hear that this
// one was interrupted, and so does the caller, by a RevokedError. Must not throw, nor call the library.
using InterruptCheck = bool (*)();
void set_interrupt_check(InterruptCheck check);  // null, the default: nobody is asked

namespace distributed {
// Makes a call whose arguments were found to be wrong before they could be given to it: the others hear of it, as of any call
// that a rank refuses, and it throws `why`, which is not ok. Outside the group it only throws.
void refuse(Collective kind, const Status& why, const GroupHandle& group = {});
}  // namespace distributed

namespace comm_func {
void refuse(Collective kind, const Status& why, const std::string& group);  // the same, by the group's name
}  // namespace comm_func

}  // namespace unisono
