// Mutexes and global pointers across fork(): the child has none of the parent's other threads.
#pragma once

#include <pthread.h>

#include <mutex>

namespace pk {

// Holds a mutex while the process forks, so that no thread that the child lacks owns it there. The child sets
// the pointers to null: they point to objects that depend on the parent's threads.
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
