// ImageCache: an LRU cache of the modules of user kernels, by the keys of the images that they are loaded
// from.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "pycudakit.h"

namespace pk::kernels {

// At most `capacity` modules stay loaded, apart from those in use. A forked child begins with an empty cache,
// because its parent's may have been in use. Never destroyed: at the process's exit the driver may be gone
// before it. Cached modules are found while another one is loaded or destroyed, which may wait for a device.
template <class Module, size_t capacity>
class ImageCache {
   public:
    using Pointer = std::shared_ptr<Module>;

    // Returns the cached module of an image, or else the one that load() returns, which one thread at a time
    // calls.
    template <class Load>
    static Pointer get(const pk_image &image, Load load) {
        const Key key = key_of(image);
        if (Pointer cached = find(key)) return cached;
        List dropped;  // destroyed after the locks are released
        const std::lock_guard<std::mutex> loading_lock(loading_mutex);
        if (Pointer cached = find(key)) return cached;  // another thread has loaded it meanwhile
        Pointer loaded = load();
        const std::lock_guard<std::mutex> lock(mutex);
        List &all = list();
        all.emplace_front(key, loaded);
        if (all.size() > capacity) dropped.splice(dropped.end(), all, std::prev(all.end()));
        return loaded;
    }

    // Drops the module of an image, which is destroyed when it is no longer in use.
    static void drop(const pk_image &image) {
        drop_if([key = key_of(image)](const Entry &entry) { return entry.first == key; });
    }

    // Drops the modules that no call uses.
    static void release() {
        drop_if([](const Entry &entry) { return entry.second.use_count() == 1; });
    }

   private:
    using Key = std::pair<uint64_t, uint64_t>;
    using Entry = std::pair<Key, Pointer>;
    using List = std::list<Entry>;

    static Key key_of(const pk_image &image) { return {image.key[0], image.key[1]}; }

    static List &list() {
        // As hold_over_forks() does: GCC 12 does not compile its template arguments in a template.
        static const int registered = pthread_atfork(
            [] {
                loading_mutex.lock();
                mutex.lock();
            },
            unlock,
            [] {
                modules = nullptr;
                unlock();
            });
        (void)registered;
        if (modules == nullptr) modules = new List;
        return *modules;
    }

    static void unlock() {
        mutex.unlock();
        loading_mutex.unlock();
    }

    static Pointer find(const Key &key) {
        const std::lock_guard<std::mutex> lock(mutex);
        List &all = list();
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const Entry &entry) { return entry.first == key; });
        if (found == all.end()) return nullptr;
        all.splice(all.begin(), all, found);
        return found->second;
    }

    template <class Condition>
    static void drop_if(Condition condition) {
        List dropped;  // destroyed after the lock is released
        const std::lock_guard<std::mutex> lock(mutex);
        List &all = list();
        for (auto at = all.begin(); at != all.end();) {
            const auto entry = at++;
            if (condition(*entry)) dropped.splice(dropped.end(), all, entry);
        }
    }

    static inline std::mutex loading_mutex, mutex;  // locked in this order
    static inline List *modules = nullptr;          // the most recently used first
};

}  // namespace pk::kernels
