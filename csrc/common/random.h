// The checked arguments of pk_random, for both engines.
#pragma once

#include "common/call/call.h"
#include "layout.h"
#include "random_counts.h"
#include "random_gamma.h"

namespace pk::random {

struct Request {
    Request(const pk_draws *draws, const pk_operand *operands, int64_t operand_count, const int64_t *shape,
            int64_t dimensions, int32_t allowed_flags = PK_OPERAND_BYTE_SWAPPED);

    int64_t elements() const { return layout.size; }

    int distribution, type;
    int parameters;
    PhiloxStreams streams{};
    bool has_half;
    uint32_t half;
    Layout layout;

    const View &out() const { return layout.views[0]; }
    // Whether elements take 32 bits each instead of a whole word.
    bool takes_halves() const {
        return distribution <= PK_RANDOM_EXPONENTIAL && (type == PK_UINT32 || type == PK_FLOAT32);
    }
    // Whether the distribution uses rejection, so that elements differ in cost.
    bool rejects() const {
        return distribution == PK_RANDOM_POISSON || distribution == PK_RANDOM_BINOMIAL ||
               distribution == PK_RANDOM_GAMMA || distribution == PK_RANDOM_BETA;
    }
    // Whether a parameter is the same for all elements, and its bits.
    bool is_constant(int parameter) const;
    uint64_t constant(int parameter) const;
};

}  // namespace pk::random
