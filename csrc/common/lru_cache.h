// LruCache: values by keys. The least recently used are dropped.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace pk {

struct CountOne {
    template <class Value>
    size_t operator()(const Value &) const {
        return 1;
    }
};

struct HashKey {
    size_t operator()(const std::pair<uint64_t, uint64_t> &words) const {
        return 31 * words.first + words.second;
    }
    size_t operator()(const std::string &bytes) const { return std::hash<std::string>()(bytes); }
};

// The sizes of the values, by SizeOf, add up to at most `capacity`. A forked child begins with an empty
// cache, because its parent's may have been in use. Never destroyed: calls may still run while the process
// exits, and the driver may be gone by then. Values are destroyed while no lock is held, since that may wait
// for a device.
template <class Key, class Value, size_t capacity, class SizeOf = CountOne>
class LruCache {
   public:
    // Returns a copy of a key's value, or else of the one that load() returns. One thread at a time loads;
    // cached values can be read meanwhile.
    template <class Load>
    static Value get(const Key &key, Load load) {
        if (Value cached = find(key)) return cached;
        Entries dropped;
        const std::lock_guard<std::mutex> loading_lock(loading_mutex);
        if (Value cached = find(key)) return cached;  // another thread has loaded it meanwhile
        Value loaded = load();
        dropped = insert(key, loaded);
        return loaded;
    }

    // Sets a key's value.
    static void put(const Key &key, Value value) { insert(key, std::move(value)); }

    // Returns a key's value, or an empty one, and removes it from the cache.
    static Value take(const Key &key) {
        Entries taken;
        const std::lock_guard<std::mutex> lock(mutex);
        Contents &all = locked_contents();
        const auto found = all.by_key.find(key);
        if (found == all.by_key.end()) return {};
        all.move(found->second, taken);
        return std::move(taken.front().second);
    }

    // Drops the values for which the condition holds.
    template <class Condition>
    static void drop_if(Condition condition) {
        Entries dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        Contents &all = locked_contents();
        for (auto at = all.entries.begin(); at != all.entries.end();) {
            const auto entry = at++;
            if (condition(entry->second)) all.move(entry, dropped);
        }
    }

   private:
    using Entries = std::list<std::pair<Key, Value>>;
    using Entry = typename Entries::iterator;

    struct Contents {
        Entries entries;  // the most recently used first
        std::unordered_map<Key, Entry, HashKey> by_key;
        size_t size = 0;  // of all values

        // Moves an entry to another list.
        void move(Entry entry, Entries &to) {
            size -= SizeOf()(entry->second);
            by_key.erase(entry->first);
            to.splice(to.end(), entries, entry);
        }
    };

    static Contents &locked_contents() {
        // This is hold_over_forks() (call/forks.h) by hand: GCC 12 rejects static members of a template as
        // its template arguments.
        static const int registered = pthread_atfork(
            [] {
                loading_mutex.lock();
                mutex.lock();
            },
            unlock,
            [] {
                contents = nullptr;
                unlock();
            });
        (void)registered;
        if (contents == nullptr) contents = new Contents;
        return *contents;
    }

    static void unlock() {
        mutex.unlock();
        loading_mutex.unlock();
    }

    static Value find(const Key &key) {
        const std::lock_guard<std::mutex> lock(mutex);
        Contents &all = locked_contents();
        const auto found = all.by_key.find(key);
        if (found == all.by_key.end()) return {};
        all.entries.splice(all.entries.begin(), all.entries, found->second);
        return found->second->second;
    }

    // Returns the values that no longer fit, and the one that the key had.
    static Entries insert(const Key &key, Value value) {
        Entries added, dropped;
        added.emplace_front(key, std::move(value));
        const std::lock_guard<std::mutex> lock(mutex);
        Contents &all = locked_contents();
        const auto replaced = all.by_key.find(key);
        if (replaced != all.by_key.end()) all.move(replaced->second, dropped);
        all.by_key.emplace(key, added.begin());
        all.size += SizeOf()(added.front().second);
        all.entries.splice(all.entries.begin(), added);
        while (all.size > capacity) all.move(std::prev(all.entries.end()), dropped);
        return dropped;
    }

    static inline std::mutex loading_mutex, mutex;  // locked in this order
    static inline Contents *contents = nullptr;
};

}  // namespace pk
