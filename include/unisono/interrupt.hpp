// Letting a thread that waits in the library be interrupted, by Ctrl-C say: language bindings use this.
#pragma once

namespace unisono {

// Asked every 100 ms or so by each thread that has waited in a call for 10 ms, on that thread, with no lock held that another
// call would need. True: the thread gives up. The group of its call is broken as by abort(): the other ranks hear that this
// one was interrupted, and so does the caller, by a RevokedError. Must not throw, nor call the library.
using InterruptCheck = bool (*)();
void set_interrupt_check(InterruptCheck check);  // null, the default: nobody is asked

}  // namespace unisono
