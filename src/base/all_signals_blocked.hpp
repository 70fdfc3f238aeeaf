// For as long as it lives no signal reaches this thread, nor any that it starts, ever: threads of ours leave signals to the program's.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace unisono {

class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace unisono
