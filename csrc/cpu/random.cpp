#include "common/random.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "common/call/share_out.h"
#include "common/types.h"
#include "loops.h"

namespace pk::random {

namespace {

constexpr int64_t BLOCK = 2048;
// Elements that a thread takes at once: of large arrays, a huge page or more, so that no two threads touch
// one for the first time.
constexpr int64_t LEAST_SHARE = 32 * BLOCK, MOST_SHARE = 256 * BLOCK;

// A parameter of a block's elements: one for all, or one for each.
class Parameter {
   public:
    Parameter(const Request &request, int index)
        : request_(request), index_(index), each_(!request.is_constant(index)) {
        if (!each_) bits_[0] = request.constant(index);
    }

    void read(int64_t start, int64_t count) {
        if (each_) request_.layout.gather(request_.layout.views[size_t(1 + index_)], start, count, bits_);
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

// Draws blocks, on one thread.
class Drawer {
   public:
    explicit Drawer(const Request &request) : request_(request) {
        if (request.parameters > 0) a_ = std::make_unique<Parameter>(request, 0);
        if (request.parameters > 1) b_ = std::make_unique<Parameter>(request, 1);
    }

    void draw(int64_t start, int64_t count) {
        const View &out = request_.out();
        const bool direct = out.access == Access::contiguous;
        void *to = direct ? out.base + start * out.item : reinterpret_cast<char *>(results_);
        if (a_) a_->read(start, count);
        if (b_) b_->read(start, count);
        switch (request_.what) {
            case PK_RANDOM_BITS: std::memcpy(to, bits(start, count), size_t(count * out.item)); break;
            case PK_RANDOM_INTEGERS: integers(start, count, to); break;
            case PK_RANDOM_POISSON:
            case PK_RANDOM_BINOMIAL: counts(start, count, static_cast<int64_t *>(to)); break;
            default: reals(start, count, to);
        }
        if (!direct) request_.layout.scatter(out, start, count, results_);
    }

   private:
    const void *bits(int64_t start, int64_t count) {
        return request_.takes_halves() ? halves(start, count)
                                       : static_cast<const void *>(words(0, start, count));
    }

    const uint64_t *words(int plane, int64_t start, int64_t count) {
        const Planes &planes = request_.planes;
        const uint64_t first = uint64_t(start) + planes.skipped, lead = first % philox::WORDS;
        philox::Counter counter = planes.counter + first / philox::WORDS;
        counter.part[3] ^= uint64_t(plane) << 48;
        uint64_t *const to = words_[plane];
        loops_.words(planes.key, counter, (int64_t(lead) + count + philox::WORDS - 1) / philox::WORDS, to);
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
        loops_.transform[request_.what - PK_RANDOM_UNIFORM][is_double](bits(start, count), count, to);
        if (!a_) return;
        const double zero = 0;
        auto *results = static_cast<double *>(to);
        if (b_) {
            loops_.scale(a_->values(), a_->each(), b_->values(), b_->each(), count, results);
        } else {
            loops_.scale(&zero, false, a_->values(), a_->each(), count, results);
        }
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
            to[i] = T(integer(a_->at<uint64_t>(i), b_->at<uint64_t>(i), drawn[i], request_.planes,
                              uint64_t(start + i)));
        }
    }

    void counts(int64_t start, int64_t count, int64_t *to) {
        if (request_.what == PK_RANDOM_POISSON) {
            const auto of = [&](int64_t i) { return Poisson(a_->at<double>(i)); };
            a_->each() ? counts_of_each(start, count, to, of) : counts_of_one(start, count, to, of(0));
        } else {
            const auto of = [&](int64_t i) { return Binomial(a_->at<int64_t>(i), b_->at<double>(i)); };
            a_->each() || b_->each() ? counts_of_each(start, count, to, of)
                                     : counts_of_one(start, count, to, of(0));
        }
    }

    template <class Of>
    void counts_of_each(int64_t start, int64_t count, int64_t *to, Of of) {
        const uint64_t *first = words(0, start, count), *second = words(1, start, count);
        for (int64_t i = 0; i < count; ++i) {
            to[i] = of(i).draw(first[i], second[i], request_.planes, uint64_t(start + i));
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
        loops_.candidates(distribution.hat, first, second, count, candidates_);
        for (int64_t i = 0; i < count; ++i) {
            to[i] = candidates_[i] >= 0
                        ? distribution.finished(to_integer(candidates_[i]))
                        : distribution.draw(first[i], second[i], request_.planes, uint64_t(start + i));
        }
    }

    const Request &request_;
    const RandomLoops &loops_ = loops().random;
    std::unique_ptr<Parameter> a_, b_;
    alignas(64) uint64_t words_[2][BLOCK + 2 * philox::WORDS];
    std::vector<double> ends_;  // of likelihoods
    alignas(64) uint32_t joined_[BLOCK];
    alignas(64) uint64_t integers_[BLOCK];
    alignas(64) double candidates_[BLOCK];
    alignas(64) uint64_t results_[BLOCK];
};

void launch(const Request &request, Call &call) {
    if (request.layout.size == 0) return;
    const int64_t size = request.layout.size;
    const int64_t threads = std::clamp<int64_t>(size / (8 * BLOCK), 1, thread_count());
    const int64_t share = std::clamp(size / (16 * threads) / BLOCK * BLOCK, LEAST_SHARE, MOST_SHARE);
    share_out(
        call, size, share, threads, [&] { return std::make_unique<Drawer>(request); },
        [&](auto &drawer, int64_t start, int64_t count) {
            for (int64_t done = 0; done < count; done += BLOCK) {
                drawer->draw(start + done, std::min(BLOCK, count - done));
                if (request.counts()) call.look();
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
    return pk::called(
        options, report,
        [&] { return pk::random::Request(draws, operands, operand_count, shape, dimensions); },
        pk::random::launch);
}
