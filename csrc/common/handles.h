// Handles: objects that callers name by number.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/call/status.h"

namespace pk {

// A table of objects by number. A number that was removed is not used again, so that an old one is refused.
template <class Object>
class Handles {
   public:
    // `name` is that of an object in messages.
    explicit Handles(std::string name) : name_(std::move(name)) {}

    uint64_t add(std::shared_ptr<Object> object) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        objects_.emplace(++last_, std::move(object));
        return last_;
    }

    // Throws if there is none of that number.
    std::shared_ptr<Object> get(uint64_t handle) const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto found = objects_.find(handle);
        if (found == objects_.end()) fail_no_object(handle);
        return found->second;
    }

    // Returns the object, which is no longer in the table. Throws if there is none of that number.
    std::shared_ptr<Object> remove(uint64_t handle) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        const auto found = objects_.find(handle);
        if (found == objects_.end()) fail_no_object(handle);
        std::shared_ptr<Object> object = std::move(found->second);
        objects_.erase(found);
        return object;
    }

    template <class Predicate>
    void remove_if(Predicate predicate) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        for (auto object = objects_.begin(); object != objects_.end();)
            object = predicate(*object->second) ? objects_.erase(object) : std::next(object);
    }

    template <class Visit>
    void each(Visit visit) const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        for (const auto &[handle, object] : objects_) visit(*object);
    }

   private:
    [[noreturn]] void fail_no_object(uint64_t handle) const {
        fail(PK_INVALID_ARGUMENT,
             "there is no " + name_ + " " + std::to_string(handle) + "; it may have been unloaded");
    }

    const std::string name_;
    mutable std::shared_mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
    uint64_t last_ = 0;
};

}  // namespace pk
