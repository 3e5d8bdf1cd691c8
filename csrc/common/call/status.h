// Errors. Code anywhere in the library throws a Failure; guarded(), around the body of each entry, catches
// it, sets the thread's last message and returns the status.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "pycudakit.h"

namespace pk {

class Failure : public std::runtime_error {
   public:
    Failure(pk_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    pk_status status() const { return status_; }

   private:
    pk_status status_;
};

[[noreturn]] inline void fail(pk_status status, const std::string &message) {
    throw Failure(status, message);
}

inline void require(bool holds, const char *message) {
    if (!holds) fail(PK_INVALID_ARGUMENT, message);
}

// Fails unless an invariant of the library holds, which no caller can break.
inline void ensure(bool holds, const char *invariant) {
    if (!holds) fail(PK_INTERNAL_ERROR, std::string("this does not hold in the library: ") + invariant);
}

// Calls a function of the caller's. An exception of its stops the call.
template <class Callback>
auto called_back(Callback &&callback) {
    try {
        return std::forward<Callback>(callback)();
    } catch (const std::exception &error) {
        fail(PK_INTERRUPTED, error.what());
    } catch (...) {
        fail(PK_INTERRUPTED, "a callback threw an exception of unknown type");
    }
}

// Multiplies two sizes, neither of which is negative; fails with `message` on overflow.
inline int64_t checked_product(int64_t x, int64_t y, const char *message) {
    int64_t result = 0;
    require(!__builtin_mul_overflow(x, y, &result), message);
    return result;
}

// Fails unless the array is aligned to its elements, of `item_size` bytes. An array without elements may have
// any address.
inline void require_array(const void *array, int64_t count, size_t item_size, const char *name) {
    if (count == 0) return;
    if (array == nullptr) fail(PK_INVALID_ARGUMENT, std::string(name) + " is a null pointer");
    if (reinterpret_cast<uintptr_t>(array) % item_size != 0)
        fail(PK_INVALID_ARGUMENT, std::string(name) + " is not aligned to its elements");
}

const char *last_error() noexcept;
// Sets the thread's last message, and returns `status`, for the entry to return it.
pk_status set_last_error(pk_status status, const char *message) noexcept;

template <class Body>
int32_t guarded(Body &&body) noexcept {
    try {
        std::forward<Body>(body)();
        return PK_OK;
    } catch (const Failure &failure) {
        return set_last_error(failure.status(), failure.what());
    } catch (const std::bad_alloc &) {
        return set_last_error(PK_OUT_OF_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
        return set_last_error(PK_INTERNAL_ERROR, error.what());
    } catch (...) {
        return set_last_error(PK_INTERNAL_ERROR, "an unknown C++ exception");
    }
}

}  // namespace pk
