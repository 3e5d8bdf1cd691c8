// What a forked child needs of its parent's threads, which it does not have.
#pragma once

#include <pthread.h>

#include <mutex>

namespace pk {

// Locks a mutex while the process forks, so that no thread that the child lacks holds it there. In the child
// these pointers are null: what they point to was made for the parent's threads.
template <std::mutex &mutex, auto &...pointers>
void hold_over_forks() {
    static const int registered = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                                                 [] {
                                                     ((pointers = nullptr), ...);
                                                     mutex.unlock();
                                                 });
    (void)registered;
}

}  // namespace pk
