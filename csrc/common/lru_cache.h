// LruCache: values by keys of two words. The least recently used are dropped.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <utility>

namespace pk {

struct CountOne {
    template <class Value>
    size_t operator()(const Value &) const {
        return 1;
    }
};

// The sizes of the values, by SizeOf, add up to at most `capacity`. A forked child begins with an empty
// cache, because its parent's may have been in use. Never destroyed: calls may outlive the process's exit,
// and at that time the driver may be gone. Values are destroyed while no lock is held, since that may wait
// for a device.
template <class Value, size_t capacity, class SizeOf = CountOne>
class LruCache {
   public:
    // Returns a copy of a key's value, or else of the one that load() returns, which one thread at a time
    // calls. Other values are found meanwhile.
    template <class Load>
    static Value get(const uint64_t *key, Load load) {
        if (Value cached = find(key)) return cached;
        Entries dropped;
        const std::lock_guard<std::mutex> loading_lock(loading_mutex);
        if (Value cached = find(key)) return cached;  // another thread has loaded it meanwhile
        Value loaded = load();
        dropped = insert(key, loaded);
        return loaded;
    }

    // Sets a key's value.
    static void put(const uint64_t *key, Value value) { insert(key, std::move(value)); }

    // Returns a key's value, or an empty one, and removes it from the cache.
    static Value take(const uint64_t *key) {
        const std::lock_guard<std::mutex> lock(mutex);
        Entries &all = locked_entries();
        const auto found = position(all, key);
        if (found == all.end()) return {};
        Value taken = std::move(found->second);
        all.erase(found);
        return taken;
    }

    // Drops the values for which the condition holds.
    template <class Condition>
    static void drop_if(Condition condition) {
        Entries dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        Entries &all = locked_entries();
        for (auto at = all.begin(); at != all.end();) {
            const auto entry = at++;
            if (condition(entry->second)) dropped.splice(dropped.end(), all, entry);
        }
    }

   private:
    using Key = std::pair<uint64_t, uint64_t>;
    using Entries = std::list<std::pair<Key, Value>>;

    static Key key_of(const uint64_t *key) { return {key[0], key[1]}; }

    static Entries &locked_entries() {
        // As hold_over_forks() does: GCC 12 does not compile its template arguments in a template.
        static const int registered = pthread_atfork(
            [] {
                loading_mutex.lock();
                mutex.lock();
            },
            unlock,
            [] {
                entries = nullptr;
                unlock();
            });
        (void)registered;
        if (entries == nullptr) entries = new Entries;
        return *entries;
    }

    static void unlock() {
        mutex.unlock();
        loading_mutex.unlock();
    }

    static auto position(Entries &all, const uint64_t *key) {
        return std::find_if(all.begin(), all.end(),
                            [wanted = key_of(key)](const auto &entry) { return entry.first == wanted; });
    }

    static Value find(const uint64_t *key) {
        const std::lock_guard<std::mutex> lock(mutex);
        Entries &all = locked_entries();
        const auto found = position(all, key);
        if (found == all.end()) return {};
        all.splice(all.begin(), all, found);
        return found->second;
    }

    // Returns the values that no longer fit, and the one that the key had.
    static Entries insert(const uint64_t *key, Value value) {
        Entries dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        Entries &all = locked_entries();
        const auto replaced = position(all, key);
        if (replaced != all.end()) dropped.splice(dropped.end(), all, replaced);
        all.emplace_front(key_of(key), std::move(value));
        size_t size = 0;
        auto first_dropped = all.begin();
        while (first_dropped != all.end() && (size += SizeOf()(first_dropped->second)) <= capacity)
            ++first_dropped;
        dropped.splice(dropped.end(), all, first_dropped, all.end());
        return dropped;
    }

    static inline std::mutex loading_mutex, mutex;  // locked in this order
    static inline Entries *entries = nullptr;       // the most recently used first
};

}  // namespace pk
