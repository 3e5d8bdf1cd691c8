// Mutexes and global pointers across fork(): the child has none of the parent's other threads.
#pragma once

#include <pthread.h>

#include <mutex>

namespace pk {

// From the first call on, locks the mutex before each fork and unlocks it after: otherwise the child could
// inherit a mutex that is locked by a thread that the child lacks. The child sets the pointers to null, since
// they point to objects that depend on the parent's threads.
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
