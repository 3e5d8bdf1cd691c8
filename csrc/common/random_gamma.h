// Gamma and beta numbers by rejection (Marsaglia and Tsang 2000). An element that rejects its words continues
// with its words of the next streams.
#pragma once

#include "common/math/exponential.h"
#include "random_planes.h"
#include "random_transforms.h"

namespace pk::random {

// The streams of a gamma number: two for each attempt, and one for shapes below 1. Those of an element's
// second gamma number follow.
constexpr int FALL_STREAM = 2 * MAX_ATTEMPTS, GAMMA_STREAMS = 2 * FALL_STREAM;

// Marsaglia and Tsang's method: d (1 + c z)^3 of a normal number z, accepted by a uniform number. A shape
// below 1 uses the number of shape + 1, scaled by a power of a uniform number (see fall).
struct Gamma {
    double shape, d, c;

    PK_HD explicit Gamma(double shape)
        : shape(shape), d(select(shape < 1, shape + 1, shape) - 1.0 / 3), c(1 / pk::sqrt(9 * d)) {}

    // A candidate. is_sure: it is accepted without the exact test; is_lost: it is rejected without it.
    PK_HD double candidate(double z, double u, bool &is_sure, bool &is_lost) const {
        const double root = 1 + c * z, square = z * z;
        is_lost = !(root > 0);
        is_sure = !is_lost & (u < 1 - 0.0331 * (square * square));
        return d * (root * root * root);
    }
    // The log-likelihood z^2 / 2 + d (1 - root^3 + log root^3); for small c z by a series, without
    // cancellation.
    PK_HD double log_likelihood(double z) const {
        const double x = c * z, root = 1 + x;
        if (pk::abs(x) < 0x1p-8) {
            return d * (x * x) * (x * x) *
                   math::detail::polynomial(x, -0.75, 0.6, -0.5, 3.0 / 7, -0.375, 1.0 / 3);
        }
        return 0.5 * z * z + d * (1 - root * root * root + 3 * math::log(root));
    }

    // Draws from the normal and the uniform number of the first two streams.
    PK_HD double draw(double z, double u, const PhiloxStreams &streams, uint64_t element,
                      int first_stream) const {
        if (!(shape < 0x1p1023)) return shape;
        for (int attempt = 0; attempt < MAX_ATTEMPTS; ++attempt) {
            if (attempt > 0) {
                z = normal(streams.word(element, first_stream + 2 * attempt));
                u = uniform(streams.word(element, first_stream + 2 * attempt + 1));
            }
            bool is_sure, is_lost;
            const double value = candidate(z, u, is_sure, is_lost);
            if (is_sure || (!is_lost && math::log(u) < log_likelihood(z))) return value;
        }
        return d;
    }
};

// For shapes below 1: the negative logarithm of the factor u^(1 / shape), and its application.
PK_HD double fall(double shape, uint64_t word) { return exponential(word) / shape; }
PK_HD double fallen(double gamma, double fall) { return gamma * math::exp(-fall); }

// A beta number: first / (first + second) of two gamma numbers.
PK_HD double share(double first, double first_fall, double second, double second_fall) {
    return 1 / (1 + second / first * math::exp(first_fall - second_fall));
}
// Scales shapes that are so small that both gamma numbers may be 0. The beta number does not change: it is 0
// or 1.
PK_HD double enlarged(double shape, double other) {
    return shape * select((shape < 0x1p-500) & (other < 0x1p-500), 0x1p400, 1.0);
}

PK_HD double gamma(double shape, uint64_t word, uint64_t second, const PhiloxStreams &streams,
                   uint64_t element) {
    const double value = Gamma(shape).draw(normal(word), uniform(second), streams, element, 0);
    if (!(shape < 1)) return value;
    return fallen(value, fall(shape, streams.word(element, FALL_STREAM)));
}

PK_HD double beta(double a, double b, uint64_t word, uint64_t second, const PhiloxStreams &streams,
                  uint64_t element) {
    constexpr int OTHER = GAMMA_STREAMS;
    const double first = Gamma(a).draw(normal(word), uniform(second), streams, element, 0);
    const double other = Gamma(b).draw(normal(streams.word(element, OTHER)),
                                       uniform(streams.word(element, OTHER + 1)), streams, element, OTHER);
    double falls[2] = {};
    if (a < 1) falls[0] = fall(enlarged(a, b), streams.word(element, FALL_STREAM));
    if (b < 1) falls[1] = fall(enlarged(b, a), streams.word(element, OTHER + FALL_STREAM));
    return share(first, falls[0], other, falls[1]);
}

}  // namespace pk::random
