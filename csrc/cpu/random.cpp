// pk_random on the CPU: draws blocks of random numbers with vectorised loops, and redraws rejected elements.
#include "common/random.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "common/call/parallel_for.h"
#include "common/rounding.h"
#include "common/types.h"
#include "loops.h"

namespace pk::random {

namespace {

constexpr int64_t BLOCK = 2048;
// Elements that a thread takes at once. In large arrays a share is at least a huge page, so that no two
// threads touch a huge page for the first time.
constexpr int64_t LEAST_SHARE = 4 * BLOCK, MOST_SHARE = 256 * BLOCK;

// A parameter of the elements of a block: one value, or one for each element.
class Parameter {
   public:
    Parameter(const Request &request, int index)
        : request_(request), index_(index), each_(!request.is_constant(index)) {
        if (!each_) bits_[0] = request.constant(index);
    }

    void read(int64_t start, int64_t count) {
        if (each_) request_.layout.gather(request_.layout.views[size_t(index_) + 1], start, count, bits_);
    }
    bool each() const { return each_; }
    const double *values() const { return reinterpret_cast<const double *>(bits_); }
    template <class T>
    T at(int64_t i) const {
        return bit_cast<T>(bits_[each_ ? i : 0]);
    }

   private:
    const Request &request_;
    const int index_;
    const bool each_;
    alignas(64) uint64_t bits_[BLOCK];
};

// Draws blocks on one thread.
class RandomWorker {
   public:
    explicit RandomWorker(const Request &request) : request_(request) {
        if (request.parameters > 0) a_ = std::make_unique<Parameter>(request, 0);
        if (request.parameters > 1) b_ = std::make_unique<Parameter>(request, 1);
    }

    void draw(int64_t start, int64_t count) {
        const View &out = request_.out();
        const bool direct = out.access == Access::contiguous;
        void *to = direct ? out.base + start * out.item : reinterpret_cast<char *>(results_);
        if (a_) a_->read(start, count);
        if (b_) b_->read(start, count);
        switch (request_.distribution) {
            case PK_RANDOM_BITS: std::memcpy(to, bits(start, count), size_t(count * out.item)); break;
            case PK_RANDOM_INTEGERS: integers(start, count, to); break;
            case PK_RANDOM_POISSON:
            case PK_RANDOM_BINOMIAL: counts(start, count, static_cast<int64_t *>(to)); break;
            case PK_RANDOM_GEOMETRIC: geometrics(start, count, static_cast<int64_t *>(to)); break;
            case PK_RANDOM_GAMMA: gammas(start, count, to); break;
            case PK_RANDOM_BETA: betas(start, count, static_cast<double *>(to)); break;
            default: reals(start, count, to);
        }
        if (!direct) request_.layout.scatter(out, start, count, results_);
    }

   private:
    const void *bits(int64_t start, int64_t count) {
        return request_.takes_halves() ? halves(start, count)
                                       : static_cast<const void *>(words(0, start, count));
    }

    // The words of one stream, in one of two buffers.
    const uint64_t *words(int stream_index, int64_t start, int64_t count) {
        const PhiloxStreams &streams = request_.streams;
        const uint64_t first = uint64_t(start) + streams.skipped, lead = first % philox::WORDS;
        philox::Counter counter = streams.counter + first / philox::WORDS;
        counter.part[3] ^= uint64_t(stream_index) << 48;
        uint64_t *const to = words_[stream_index % 2];
        loops_.words(streams.key, counter, ceil_div(int64_t(lead) + count, philox::WORDS), to);
        return to + lead;
    }

    const uint32_t *halves(int64_t start, int64_t count) {
        const bool with_half = request_.has_half && start == 0;
        const int64_t first = with_half ? 0 : start - int64_t(request_.has_half), lead = first % 2;
        const int64_t own = count - int64_t(with_half);
        const uint64_t *from = words(0, first / 2, (lead + own + 1) / 2);
        const auto *found = reinterpret_cast<const uint32_t *>(from) + lead;
        if (!with_half) return found;
        std::memcpy(joined_, &request_.half, sizeof(uint32_t));
        std::memcpy(joined_ + 1, found, size_t(own) * sizeof(uint32_t));
        return joined_;
    }

    void reals(int64_t start, int64_t count, void *to) {
        const bool is_double = request_.type == PK_FLOAT64;
        const int distribution =
            request_.distribution == PK_RANDOM_LOGNORMAL ? PK_RANDOM_NORMAL : request_.distribution;
        loops_.transform[distribution - PK_RANDOM_UNIFORM][is_double](bits(start, count), count, to);
        if (!a_) return;
        auto *results = static_cast<double *>(to);
        if (b_) {
            loops_.scale(a_->values(), a_->each(), b_->values(), b_->each(), count, results);
        } else {
            scale(*a_, count, results);
        }
        if (request_.distribution == PK_RANDOM_LOGNORMAL) loops_.exponentiate(count, results);
    }

    void scale(const Parameter &by, int64_t count, double *results) {
        const double zero = 0;
        loops_.scale(&zero, false, by.values(), by.each(), count, results);
    }

    // Numbers of one stream: PK_RANDOM_UNIFORM, PK_RANDOM_NORMAL or PK_RANDOM_EXPONENTIAL.
    void numbers(int distribution, int stream_index, int64_t start, int64_t count, double *to) {
        loops_.transform[distribution - PK_RANDOM_UNIFORM][true](words(stream_index, start, count), count,
                                                                 to);
    }

    void gammas(int64_t start, int64_t count, void *to) {
        const bool is_double = request_.type == PK_FLOAT64;
        double *results = is_double ? static_cast<double *>(to) : numbers_[2];
        not_fallen(start, count, *a_, 0, results);
        if (falls(start, count, *a_, nullptr, 0, numbers_[0])) loops_.fallen(numbers_[0], count, results);
        scale(*b_, count, results);
        if (is_double) return;
        for (int64_t i = 0; i < count; ++i) static_cast<float *>(to)[i] = float(results[i]);
    }

    void betas(int64_t start, int64_t count, double *to) {
        double *const first = numbers_[2], *const first_falls = numbers_[3];
        not_fallen(start, count, *a_, 0, first);
        falls(start, count, *a_, b_.get(), 0, first_falls);
        not_fallen(start, count, *b_, GAMMA_STREAMS, to);
        falls(start, count, *b_, a_.get(), GAMMA_STREAMS, numbers_[0]);
        loops_.shares(first, first_falls, numbers_[0], count, to);
    }

    // Gamma numbers, where shapes below 1 are raised by 1 and not yet scaled.
    void not_fallen(int64_t start, int64_t count, const Parameter &shape, int stream_index, double *to) {
        double *const normals = numbers_[0], *const uniforms = numbers_[1];
        numbers(PK_RANDOM_NORMAL, stream_index, start, count, normals);
        numbers(PK_RANDOM_UNIFORM, stream_index + 1, start, count, uniforms);
        loops_.gamma_candidates(shape.values(), shape.each(), normals, uniforms, count, to);
        for (int64_t i = 0; i < count; ++i) {
            if (to[i] >= 0) continue;
            const Gamma gamma(shape.at<double>(i));
            to[i] = gamma.draw(normals[i], uniforms[i], request_.streams, uint64_t(start + i), stream_index);
        }
    }

    // The scaling of gamma numbers with shapes below 1; returns whether there are any.
    bool falls(int64_t start, int64_t count, const Parameter &shape, const Parameter *other, int stream_index,
               double *to) {
        const double *shapes = shape.values();
        const int64_t last = shape.each() ? count : 1;
        if (std::none_of(shapes, shapes + last, [](double value) { return value < 1; })) {
            std::fill_n(to, count, 0.0);
            return false;
        }
        numbers(PK_RANDOM_EXPONENTIAL, stream_index + FALL_STREAM, start, count, to);
        for (int64_t i = 0; i < count; ++i) {
            const double own = shape.at<double>(i);
            to[i] = own < 1 ? to[i] / (other != nullptr ? enlarged(own, other->at<double>(i)) : own) : 0.0;
        }
        return true;
    }

    void integers(int64_t start, int64_t count, void *to) {
        switch (request_.out().item) {
            case 1: return integers(start, count, static_cast<uint8_t *>(to));
            case 2: return integers(start, count, static_cast<uint16_t *>(to));
            case 4: return integers(start, count, static_cast<uint32_t *>(to));
            default: return integers(start, count, static_cast<uint64_t *>(to));
        }
    }

    template <class T>
    void integers(int64_t start, int64_t count, T *to) {
        const uint64_t *drawn = words(0, start, count);
        const uint64_t span = b_->at<uint64_t>(0);
        if (!a_->each() && !b_->each() && span < 0xffffffff &&
            !loops_.integers(drawn, count, a_->at<uint64_t>(0), span + 1, integers_)) {
            for (int64_t i = 0; i < count; ++i) to[i] = T(integers_[i]);
            return;
        }
        for (int64_t i = 0; i < count; ++i) {
            to[i] = T(integer(a_->at<uint64_t>(i), b_->at<uint64_t>(i), drawn[i], request_.streams,
                              uint64_t(start + i)));
        }
    }

    void counts(int64_t start, int64_t count, int64_t *to) {
        if (request_.distribution == PK_RANDOM_POISSON) {
            const auto of = [&](int64_t i) { return Poisson(a_->at<double>(i)); };
            a_->each() ? counts_of_each(start, count, to, of) : counts_of_one(start, count, to, of(0));
        } else {
            const auto of = [&](int64_t i) { return Binomial(a_->at<int64_t>(i), b_->at<double>(i)); };
            a_->each() || b_->each() ? counts_of_each(start, count, to, of)
                                     : counts_of_one(start, count, to, of(0));
        }
    }

    void geometrics(int64_t start, int64_t count, int64_t *to) {
        double *const times = numbers_[0];
        numbers(PK_RANDOM_EXPONENTIAL, 0, start, count, times);
        double step = geometric_step(a_->at<double>(0));
        for (int64_t i = 0; i < count; ++i) {
            if (a_->each()) step = geometric_step(a_->at<double>(i));
            to[i] = geometric(times[i], step);
        }
    }

    template <class Of>
    void counts_of_each(int64_t start, int64_t count, int64_t *to, Of of) {
        const uint64_t *first = words(0, start, count), *second = words(1, start, count);
        for (int64_t i = 0; i < count; ++i) {
            to[i] = of(i).draw(first[i], second[i], request_.streams, uint64_t(start + i));
        }
    }

    template <class Distribution>
    void counts_of_one(int64_t start, int64_t count, int64_t *to, const Distribution &distribution) {
        const uint64_t *first = words(0, start, count);
        if (distribution.inverts) {
            if (ends_.empty()) {
                distribution.inversion.for_ends([&](int64_t, double end) {
                    ends_.push_back(end);
                    return end < 1;
                });
            }
            loops_.invert(first, count, ends_.data(), int64_t(ends_.size()), to);
            for (int64_t i = 0; i < count; ++i) to[i] = distribution.finished(to[i]);
            return;
        }
        const uint64_t *second = words(1, start, count);
        double *const candidates = numbers_[0];
        loops_.candidates(distribution.hat, first, second, count, candidates);
        for (int64_t i = 0; i < count; ++i) {
            to[i] = candidates[i] >= 0
                        ? distribution.finished(to_integer(candidates[i]))
                        : distribution.draw(first[i], second[i], request_.streams, uint64_t(start + i));
        }
    }

    const Request &request_;
    const RandomLoops &loops_ = loops().random;
    std::unique_ptr<Parameter> a_, b_;
    alignas(64) uint64_t words_[2][BLOCK + int64_t(2) * philox::WORDS];
    std::vector<double> ends_;  // cumulative probabilities
    alignas(64) uint32_t joined_[BLOCK];
    alignas(64) uint64_t integers_[BLOCK];
    alignas(64) double numbers_[4][BLOCK];
    alignas(64) uint64_t results_[BLOCK];
};

void launch(const Request &request, Call &call) {
    if (request.layout.size == 0) return;
    const int64_t size = request.layout.size;
    const int64_t threads = threads_for(size, 8 * BLOCK);
    const int64_t share = std::clamp(size / (16 * threads) / BLOCK * BLOCK, LEAST_SHARE, MOST_SHARE);
    parallel_for(
        call, size, share, threads, [&] { return std::make_unique<RandomWorker>(request); },
        [&](auto &drawer, int64_t start, int64_t count) {
            for (int64_t done = 0; done < count; done += BLOCK) {
                drawer->draw(start + done, std::min(BLOCK, count - done));
                if (request.rejects()) call.check_interrupt();
            }
            call.advance(count);
            return count;
        });
}

}  // namespace

}  // namespace pk::random

extern "C" int32_t pk_random(const pk_draws *draws, const pk_operand *operands, int64_t operand_count,
                             const int64_t *shape, int64_t dimensions, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::random::Request(draws, operands, operand_count, shape, dimensions); },
        pk::random::launch);
}
