// What bindings to other languages need beside the dialects.
#pragma once

#include <string>

#include "unisono/group.hpp"
#include "unisono/status.hpp"
#include "unisono/types.hpp"

#pragma GCC visibility push(default)
namespace unisono {

// Asked every 100 ms or so by each thread that has waited in the library for 10 ms, on that thread; never by threads of the
// library. True: the thread gives up and its call throws RevokedError. The group of a collective, a letter or a Work is then
// broken as by abort(), and its other ranks hear that this one was interrupted. Joining and making a group fail, on all ranks
// that are at it; agree() and waiting for a store break nothing, and concern nobody else.
//
// Must not throw. May abort() groups and ask for ranks and sizes; whatever else it calls of the library is a StateError, since the
// call that it interrupts is still there and has what others would wait for: other threads' calls on that group do, meanwhile.
using InterruptCheck = bool (*)();
void set_interrupt_check(InterruptCheck check);  // null, the default: nobody is asked
Status outside_interrupt_check();                // that StateError where this thread is in the check just now, otherwise ok

// Why this process is about to end, in a few words ("ValueError: a bad batch"): whoever is told that this rank is gone hears them. Nothing where no world was
// joined.
void say_last_words(const std::string& why);

namespace distributed {
// Makes a call whose arguments were found to be wrong before they could be given to it: the others hear of it, as of any call
// that a rank refuses, and it throws `why`, which is not ok. Outside the group it only throws.
void refuse(Collective kind, const Status& why, const GroupHandle& group = {});
std::string group_name(const GroupHandle& group);  // as errors say it; empty outside the group
}  // namespace distributed

namespace comm_func {
void refuse(Collective kind, const Status& why, const std::string& group);  // the same, by the group's name
}  // namespace comm_func

}  // namespace unisono
#pragma GCC visibility pop
