// Sort, argsort, binary search and unique: the requests (checked arguments), the functions that each engine
// implements, and shared helpers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "common/call/call.h"
#include "common/call/parallel_for.h"
#include "common/memory_mapping.h"
#include "radix_key.h"

namespace pk {

struct Rows {
    KeyType type;
    const void *in;
    int64_t count, columns;     // the number of rows, and elements per row
    bool is_on_device = false;  // they are in device memory

    Rows(KeyType type, const void *in, int64_t count, int64_t columns);
    int64_t elements() const { return count * columns; }
};

// ---- Requests ----

struct SortRequest : Rows {
    void *out;

    SortRequest(const Rows &rows, void *out);
};

struct ArgsortRequest : Rows {
    int64_t *order;
    int64_t kept;
    bool descending;

    ArgsortRequest(const Rows &rows, int64_t *order, int64_t kept, bool descending);
};

// The requests of pk_sort and pk_argsort, whose operands are the values and the result. Fails if these have
// other flags than `allowed_flags`.
SortRequest sort_request(const pk_operand *operands, int64_t rows, int64_t columns, int32_t allowed_flags);
ArgsortRequest argsort_request(const pk_operand *operands, int64_t rows, int64_t columns, int64_t limit,
                               bool descending, int32_t allowed_flags);

struct SearchRequest {
    KeyType type;
    const void *sorted;
    int64_t size;
    const void *values;
    int64_t *places;
    int64_t count;
    bool right;

    SearchRequest(KeyType type, const void *sorted, int64_t size, const void *values, int64_t *places,
                  int64_t count, bool right);
    int64_t elements() const { return count; }
};

struct UniqueRequest : Rows {
    int64_t wanted;
    void *values;
    int64_t *index, *inverse, *counts, *found;

    UniqueRequest(const Rows &row, int64_t wanted, void *values, int64_t *index, int64_t *inverse,
                  int64_t *counts, int64_t *found);
    bool wants(int64_t flag) const { return (wanted & flag) != 0; }
    bool splits_nan() const { return !wants(PK_UNIQUE_EQUAL_NAN); }
};

// These compute the requests by calling the functions below, which each engine implements.
void sort(const SortRequest &request, Call &call);
void argsort(const ArgsortRequest &request, Call &call);
void search(const SearchRequest &request, Call &call);
void find_unique(const UniqueRequest &request, Call &call);

// ---- Implemented by each engine ----

// Sorts each row. -0.0 comes before 0.0; all NaNs become one canonical NaN.
void sort_rows(const Rows &rows, void *out, Call &call);

// Writes the distinct elements of one row in order, and returns their number. With `splits_nan`, every NaN is
// distinct. `values` has space for all elements. Zeros become -0.0, NaNs the canonical NaN.
int64_t unique_row(const Rows &row, bool splits_nan, void *values, Call &call);

// Computes the first `kept` indices of each row's stable order.
void argsort_rows(const Rows &rows, int64_t *order, int64_t kept, bool descending, Call &call);

void find_positions(const SearchRequest &request, Call &call);

extern const int HOST_STAGE;  // the stage of the host's own part of the work

// ---- Shared ----

// Scope timer: records its lifetime in the call's trace as HOST_STAGE. Each thread has its own.
class HostStageTimer {
   public:
    HostStageTimer(Call &call, int64_t elements)
        : call_(call), elements_(elements), begin_(call.seconds()), lane_(call) {}
    ~HostStageTimer() { lane_.add(HOST_STAGE, begin_, call_.seconds(), 0, elements_); }
    HostStageTimer(const HostStageTimer &) = delete;
    HostStageTimer &operator=(const HostStageTimer &) = delete;

   private:
    Call &call_;
    const int64_t elements_;
    const double begin_;
    TraceLane lane_;
};

// Temporary memory of a call. If it is large, it is in huge pages, which reduces the number of page faults.
template <class T>
class Scratch {
   public:
    explicit Scratch(int64_t count) {
        const size_t bytes = size_t(count) * sizeof(T);
        if (posix_memalign(&memory_, bytes < HUGE_PAGE ? 64 : HUGE_PAGE, std::max<size_t>(bytes, 64)) != 0) {
            throw std::bad_alloc();
        }
        if (bytes >= HUGE_PAGE) advise_huge_pages(memory_, bytes / HUGE_PAGE * HUGE_PAGE);
    }
    ~Scratch() { std::free(memory_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    T *get() const { return static_cast<T *>(memory_); }
    T &operator[](int64_t i) const { return get()[i]; }

   private:
    void *memory_ = nullptr;
};

// Binary search: the first position in sorted keys whose key is not below `key` or, with `right`, is above
// it.
template <class KeyAt, class Key>
PK_HD int64_t place_of(KeyAt key_at, int64_t size, Key key, bool right) {
    int64_t low = 0, left = size;
    while (left > 0) {
        const int64_t half = left / 2;
        const Key other = key_at(low + half);
        const bool before = other < key || (right && other == key);
        low = before ? low + half + 1 : low;
        left = before ? left - half - 1 : half;
    }
    return low;
}

}  // namespace pk
