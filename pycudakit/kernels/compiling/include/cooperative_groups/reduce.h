// cooperative_groups::reduce over a tile or a coalesced group.
#pragma once

#include "../cooperative_groups.h"

extern "C++" {
namespace cooperative_groups {

#define PK_FUNCTOR(name, combined)                        \
    template <class T = void>                             \
    struct name {                                         \
        T operator()(T a, T b) const { return combined; } \
    };
PK_FUNCTOR(plus, a + b)
PK_FUNCTOR(less, b < a ? b : a)
PK_FUNCTOR(greater, b > a ? b : a)
PK_FUNCTOR(bit_and, a &b)
PK_FUNCTOR(bit_or, a | b)
PK_FUNCTOR(bit_xor, a ^ b)
#undef PK_FUNCTOR

// A butterfly reduction if the group's size is a power of two, as on a GPU, so that the bits agree.
template <class Group, class T, class Combine>
T reduce(const Group &group, T value, Combine combine, PK_HERE) {
    const unsigned int size = group.size(), rank = group.thread_rank();
    if ((size & (size - 1)) == 0) {
        for (unsigned int by = size / 2; by != 0; by /= 2)
            value = combine(value, group.shfl(value, rank ^ by, line));
        return value;
    }
    T all = group.shfl(value, 0, line);
    for (unsigned int i = 1; i < size; ++i) all = combine(all, group.shfl(value, i, line));
    return all;
}
}  // namespace cooperative_groups
}
