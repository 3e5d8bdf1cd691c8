// Random integers: uniform integers by multiplication (Lemire 2019), Poisson and binomial numbers by
// inversion or transformed rejection (Hoermann 1993), geometric numbers. An element that rejects its words
// continues with its words of the next streams.
#pragma once

#include "common/math/exponential.h"
#include "common/math/logarithm.h"
#include "random_planes.h"

namespace pk::random {

// Lemire's method: an integer from low to low + span, each equally likely.
PK_HD uint64_t integer(uint64_t low, uint64_t span, uint64_t word, const PhiloxStreams &streams,
                       uint64_t element) {
    if (span == ~uint64_t(0)) return low + word;
    const uint64_t range = span + 1;
    if (word * range < range) {
        const uint64_t least = (0 - range) % range;
        for (int stream_index = 1; stream_index < MAX_ATTEMPTS && word * range < least; ++stream_index) {
            word = streams.word(element, stream_index);
        }
    }
    return low + philox::high_product(word, range);
}

PK_HD double unit_of(uint64_t word) { return double(int64_t(word >> 11)) * 0x1p-53; }

PK_HD double floor_of(double x) {
#if defined(__CUDA_ARCH__)
    return ::floor(x);
#else
    return __builtin_floor(x);
#endif
}

// Clips a probability to [0, 1]; NaN becomes 0.
PK_HD double sound(double likelihood) { return likelihood > 0 ? (likelihood < 1 ? likelihood : 1.0) : 0.0; }

// Converts to an integer; saturates, and NaN becomes INT64_MAX.
PK_HD int64_t to_integer(double x) { return x < 0x1p63 ? int64_t(x > 0 ? x : 0.0) : INT64_MAX; }

// log k! - (log(2 pi k) / 2 + k log k - k)
PK_HD double stirling_error(double k) {
    constexpr double TABLE[16] = {0,
                                  0.081061466795327258,
                                  0.041340695955409294,
                                  0.027677925684998339,
                                  0.020790672103765093,
                                  0.016644691189821192,
                                  0.013876128823070748,
                                  0.01189670994589177,
                                  0.010411265261972096,
                                  0.0092554621827127329,
                                  0.0083305634333628713,
                                  0.0075736754879518408,
                                  0.0069428401072095299,
                                  0.0064089941880042071,
                                  0.0059513701127588477,
                                  0.0055547335519628014};
    if (k < 16) return TABLE[int(k)];
    const double z = 1 / (k * k);
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680 - z / 1188) * z) * z) * z) / k;
}

// k log(k / mean) + mean - k, after Loader (2000), without cancellation.
PK_HD double deviance(double k, double mean) {
    const double difference = k - mean;
    if (!(pk::abs(difference) < 0.1 * (k + mean))) return k * math::log(k / mean) + mean - k;
    const double v = difference / (k + mean), z = v * v;
    double sum = difference * v, term = 2 * k * v;
    for (int j = 1; j < 20; ++j) {
        term *= z;
        const double next = sum + term / (2 * j + 1);
        if (next == sum) break;
        sum = next;
    }
    return sum;
}

// Inversion: draws the first k whose cumulative probability is above a uniform number. The probability of k
// follows from that of k - 1, by the factor (falling - k) * ratio / k or, if not `falls`, ratio / k; that of
// 0 is `first`.
struct Inversion {
    double first, ratio, falling;
    bool falls;

    static constexpr double NOTHING = 0x1p-64;

    // Calls visit(k, cumulative probability) until it returns false or the probabilities are negligible;
    // returns the last k.
    template <class Visit>
    PK_HD int64_t for_ends(Visit visit) const {
        double likelihood = first, end = first;
        int64_t k = 0;
        while (visit(k, end)) {
            const double next = (falls ? (falling - double(k + 1)) * ratio : ratio) / double(k + 1);
            likelihood *= next;
            if (!(likelihood >= NOTHING)) break;
            end += likelihood;
            ++k;
        }
        return k;
    }
    PK_HD int64_t draw(uint64_t word) const {
        const double u = unit_of(word);
        return for_ends([u](int64_t, double end) { return u >= end; });
    }
};

// Hoermann's transformed rejection (PTRS, BTRS): the parameters of the hat function.
struct Hat {
    double a, b, centre, quick, height, most;

    // A candidate. is_sure: it is accepted without the exact test; is_lost: it is rejected without it.
    PK_HD double candidate(double u, double v, bool &is_sure, bool &is_lost) const {
        const double shifted = u - 0.5, edge = 0.5 - pk::abs(shifted);
        const double k = floor_of((2 * a / edge + b) * shifted + centre);
        is_lost = !(k >= 0) | (k > most) | ((edge < 0.013) & (v > edge));
        is_sure = !is_lost & (edge >= 0.07) & (v <= quick);
        return k;
    }
    PK_HD double log_height(double u, double v) const {
        const double edge = 0.5 - pk::abs(u - 0.5);
        return math::log(v * height / (a / (edge * edge) + b));
    }
};

// The first candidate that is accepted; `otherwise` after MAX_ATTEMPTS.
template <class Likelihood>
PK_HD double accepted(const Hat &hat, double otherwise, uint64_t word, uint64_t second,
                      const PhiloxStreams &streams, uint64_t element, Likelihood log_likelihood) {
    for (int attempt = 0; attempt < MAX_ATTEMPTS; ++attempt) {
        if (attempt > 0) {
            word = streams.word(element, 2 * attempt);
            second = streams.word(element, 2 * attempt + 1);
        }
        const double u = unit_of(word), v = unit_of(second);
        bool is_sure, is_lost;
        const double k = hat.candidate(u, v, is_sure, is_lost);
        if (is_sure || (!is_lost && hat.log_height(u, v) <= log_likelihood(k))) return k;
    }
    return otherwise;
}

constexpr double BY_INVERSION = 10;  // for means below this
constexpr double TWO_PI = 0x1.921fb54442d18p+2;

struct Poisson {
    double mean;
    bool inverts;
    Inversion inversion{};
    Hat hat{};

    PK_HD explicit Poisson(double mean) : mean(mean), inverts(!(mean >= BY_INVERSION)) {
        if (inverts) {
            inversion = {math::exp(-mean), mean, 0, false};
            return;
        }
        hat.b = 0.931 + 2.53 * pk::sqrt(mean);
        hat.a = -0.059 + 0.02483 * hat.b;
        hat.centre = mean + 0.43;
        hat.quick = 0.9277 - 3.6224 / (hat.b - 2);
        hat.height = 1.1239 + 1.1328 / (hat.b - 3.4);
        hat.most = 0x1p63;
    }

    PK_HD double log_likelihood(double k) const {
        if (k == 0) return -mean;
        return -stirling_error(k) - deviance(k, mean) - math::log(TWO_PI * k) * 0.5;
    }

    PK_HD int64_t finished(int64_t k) const { return k; }

    PK_HD int64_t draw(uint64_t word, uint64_t second, const PhiloxStreams &streams, uint64_t element) const {
        if (inverts) return inversion.draw(word);
        return to_integer(accepted(hat, floor_of(mean), word, second, streams, element,
                                   [this](double k) { return log_likelihood(k); }));
    }
};

struct Binomial {
    int64_t n;
    bool flipped;  // counts the rarer outcome
    double count, p, q;
    bool inverts;
    double mode = 0, at_mode = 0;
    Inversion inversion{};
    Hat hat{};

    PK_HD Binomial(int64_t trials, double likelihood)
        : n(trials > 0 ? trials : 0),
          flipped(sound(likelihood) > 0.5),
          count(double(n)),
          p(flipped ? 1 - sound(likelihood) : sound(likelihood)),
          q(1 - p),
          inverts(!(count * p >= BY_INVERSION)) {
        if (inverts) {
            inversion = {math::exp(count * math::log1p(-p)), p / q, count + 1, true};
            return;
        }
        const double spread = pk::sqrt(count * p * q);
        hat.b = 1.15 + 2.53 * spread;
        hat.a = -0.0873 + 0.0248 * hat.b + 0.01 * p;
        hat.centre = count * p + 0.5;
        hat.quick = 0.92 - 4.2 / hat.b;
        hat.height = (2.83 + 5.1 / hat.b) * spread;
        hat.most = count;
        mode = floor_of((count + 1) * p);
        at_mode = log_likelihood(mode);
    }

    PK_HD double log_likelihood(double k) const {
        if (k == 0) return count * math::log1p(-p);
        if (k == count) return count * math::log(p);
        const double others = count - k;
        return stirling_error(count) - stirling_error(k) - stirling_error(others) - deviance(k, count * p) -
               deviance(others, count * q) + 0.5 * math::log(count / (TWO_PI * k * others));
    }

    // The number of successes, from that of the rarer outcome.
    PK_HD int64_t finished(int64_t k) const {
        const int64_t held = k < n ? k : n;
        return flipped ? n - held : held;
    }

    PK_HD int64_t draw(uint64_t word, uint64_t second, const PhiloxStreams &streams, uint64_t element) const {
        if (inverts) return finished(inversion.draw(word));
        return finished(to_integer(accepted(hat, mode, word, second, streams, element,
                                            [this](double k) { return log_likelihood(k) - at_mode; })));
    }
};

// Trials up to the first success: an exponential time in steps, rounded up.
PK_HD double geometric_step(double likelihood) { return -math::log1p(-sound(likelihood)); }
PK_HD int64_t geometric(double time, double step) {
    const double steps = -floor_of(-(time / step));
    return to_integer(steps > 1 ? steps : 1.0);
}

}  // namespace pk::random
