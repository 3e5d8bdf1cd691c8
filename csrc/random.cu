#include <algorithm>

#include "common/random.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"

namespace pk::random {

namespace {

constexpr int THREADS = 256;
constexpr int WORDS = THREADS * philox::WORDS;  // of a block of threads

// A parameter: the bits that all elements have, or where each has its own.
struct Parameter {
    const uint64_t *each;
    uint64_t all;

    template <class T>
    __device__ T at(int64_t i) const {
        return bit_cast<T>(each != nullptr ? each[i] : all);
    }
};

// A chunk: the elements from `start` on go to `to`, `count` of them.
struct Given {
    Planes planes;
    Parameter a, b;
    void *to;
    int64_t start, count;
    int64_t first_block;  // of the chunk's words
    uint32_t half;
    bool has_half, has_parameters;
};

namespace device {

template <int what, class T>
constexpr bool takes_halves = sizeof(T) == 4 && what <= PK_RANDOM_EXPONENTIAL;

// How many words an element has from the start.
template <int what>
constexpr int planes_of = what == PK_RANDOM_POISSON || what == PK_RANDOM_BINOMIAL ||
                                  what == PK_RANDOM_GAMMA || what == PK_RANDOM_BETA
                              ? 2
                              : 1;

// Element i of the chunk, of 32 bits.
template <int what, class T>
__device__ T value(const Given &, int64_t, uint32_t bits, uint64_t) {
    if constexpr (what == PK_RANDOM_BITS) return bits;
    if constexpr (what == PK_RANDOM_UNIFORM) return uniform(bits);
    if constexpr (what == PK_RANDOM_NORMAL) return normal(bits);
    if constexpr (what == PK_RANDOM_EXPONENTIAL) return exponential(bits);
}

// Of a word, and of the one at its place in the next plane.
template <int what, class T>
__device__ T value(const Given &given, int64_t i, uint64_t word, uint64_t second) {
    const auto element = uint64_t(given.start + i);
    if constexpr (what == PK_RANDOM_BITS) {
        return word;
    } else if constexpr (what == PK_RANDOM_INTEGERS) {
        return T(integer(given.a.at<uint64_t>(i), given.b.at<uint64_t>(i), word, given.planes, element));
    } else if constexpr (what == PK_RANDOM_POISSON) {
        return Poisson(given.a.at<double>(i)).draw(word, second, given.planes, element);
    } else if constexpr (what == PK_RANDOM_BINOMIAL) {
        return Binomial(given.a.at<int64_t>(i), given.b.at<double>(i))
            .draw(word, second, given.planes, element);
    } else if constexpr (what == PK_RANDOM_GEOMETRIC) {
        return geometric(exponential(word), geometric_step(given.a.at<double>(i)));
    } else if constexpr (what == PK_RANDOM_GAMMA) {
        const double drawn = gamma(given.a.at<double>(i), word, second, given.planes, element);
        return T(0.0 + given.b.at<double>(i) * drawn);
    } else if constexpr (what == PK_RANDOM_BETA) {
        return beta(given.a.at<double>(i), given.b.at<double>(i), word, second, given.planes, element);
    } else if constexpr (what == PK_RANDOM_LOGNORMAL) {
        return math::exp(given.a.at<double>(i) + given.b.at<double>(i) * normal(word));
    } else if constexpr (what == PK_RANDOM_EXPONENTIAL) {
        const double drawn = exponential(word);
        return given.has_parameters ? 0.0 + given.a.at<double>(i) * drawn : drawn;
    } else {
        const double drawn = what == PK_RANDOM_UNIFORM ? uniform(word) : normal(word);
        return given.has_parameters ? given.a.at<double>(i) + given.b.at<double>(i) * drawn : drawn;
    }
}

// A thread makes a block of words; then neighbouring threads have neighbouring elements.
template <int what, class T>
__global__ void draw(Given given) {
    constexpr int PLANES = planes_of<what>;
    __shared__ uint64_t words[PLANES * WORDS];
    const int64_t first = given.first_block + int64_t(blockIdx.x) * THREADS;
    for (int plane = 0; plane < PLANES; ++plane) {
        const philox::Block made = given.planes.block(uint64_t(first) + threadIdx.x, plane);
        for (int j = 0; j < philox::WORDS; ++j) {
            words[plane * WORDS + int(threadIdx.x) * philox::WORDS + j] = made.word[j];
        }
    }
    __syncthreads();
    T *const to = static_cast<T *>(given.to);
    // The first word that is the call's own may be within a block.
    const int64_t first_word = first * philox::WORDS - int64_t(given.planes.skipped);
    for (int k = int(threadIdx.x); k < WORDS; k += THREADS) {
        if (first_word + k < 0) continue;
        if constexpr (takes_halves<what, T>) {
            const int64_t i = 2 * (first_word + k) + int64_t(given.has_half) - given.start;
            const uint64_t word = words[k];
            if (i >= 0 && i < given.count) to[i] = value<what, T>(given, i, uint32_t(word), 0);
            if (i + 1 >= 0 && i + 1 < given.count) {
                to[i + 1] = value<what, T>(given, i + 1, uint32_t(word >> 32), 0);
            }
        } else {
            const int64_t i = first_word + k - given.start;
            if (i < 0 || i >= given.count) continue;
            to[i] = value<what, T>(given, i, words[k], words[(PLANES - 1) * WORDS + k]);
        }
    }
    if constexpr (takes_halves<what, T>) {
        const bool is_first = given.start == 0 && blockIdx.x == 0 && threadIdx.x == 0;
        if (is_first && given.has_half) to[0] = value<what, T>(given, 0, given.half, 0);
    }
}

}  // namespace device

class Drawing : public Work {
   public:
    Drawing(const Request &request, const plan::Homes &homes)
        : Work(request.layout, loads_of(request, homes), homes.stores(0), 0, 0),
          request_(request),
          homes_(homes) {
        may_queue = true;
        for (int i = 0; i < request.parameters; ++i) {
            if (request.is_constant(i)) constants_[i] = request.constant(i);
        }
    }

    void launch(const Chunk &chunk) override {
        Given given{};
        given.planes = request_.planes;
        given.a = parameter(chunk, 0);
        given.b = parameter(chunk, 1);
        given.to = homes_.at(*this, chunk, 0);
        given.start = chunk.start;
        given.count = chunk.count;
        given.half = request_.half;
        given.has_half = request_.has_half;
        given.has_parameters = request_.parameters != 0;
        int64_t first = chunk.start, last = chunk.start + chunk.count - 1;  // words
        if (request_.takes_halves()) {
            const auto before = int64_t(request_.has_half);
            first = std::max<int64_t>(0, first - before) / 2;
            last = std::max<int64_t>(0, last - before) / 2;
        }
        const auto skipped = int64_t(request_.planes.skipped);
        given.first_block = (first + skipped) / philox::WORDS;
        const int64_t made = (last + skipped) / philox::WORDS - given.first_block + 1;
        launch(given, unsigned((made + THREADS - 1) / THREADS), chunk.queue);
    }

    void collect(const void *) override {}

   private:
    static std::vector<Carried> loads_of(const Request &request, const plan::Homes &homes) {
        std::vector<int> loads;
        for (int i = 0; i < request.parameters; ++i) {
            if (!request.is_constant(i)) loads.push_back(1 + i);
        }
        return homes.loads(loads);
    }

    Parameter parameter(const Chunk &chunk, int index) const {
        return {reinterpret_cast<const uint64_t *>(homes_.at(*this, chunk, 1 + index)), constants_[index]};
    }

    void launch(const Given &given, unsigned blocks, cudaStream_t queue) const {
        const bool is_wide = layout.views[0].item == 8;
        switch (request_.what) {
            case PK_RANDOM_BITS:
                return is_wide ? launch<PK_RANDOM_BITS, uint64_t>(given, blocks, queue)
                               : launch<PK_RANDOM_BITS, uint32_t>(given, blocks, queue);
            case PK_RANDOM_UNIFORM:
                return is_wide ? launch<PK_RANDOM_UNIFORM, double>(given, blocks, queue)
                               : launch<PK_RANDOM_UNIFORM, float>(given, blocks, queue);
            case PK_RANDOM_NORMAL:
                return is_wide ? launch<PK_RANDOM_NORMAL, double>(given, blocks, queue)
                               : launch<PK_RANDOM_NORMAL, float>(given, blocks, queue);
            case PK_RANDOM_EXPONENTIAL:
                return is_wide ? launch<PK_RANDOM_EXPONENTIAL, double>(given, blocks, queue)
                               : launch<PK_RANDOM_EXPONENTIAL, float>(given, blocks, queue);
            case PK_RANDOM_POISSON: return launch<PK_RANDOM_POISSON, int64_t>(given, blocks, queue);
            case PK_RANDOM_BINOMIAL: return launch<PK_RANDOM_BINOMIAL, int64_t>(given, blocks, queue);
            case PK_RANDOM_LOGNORMAL: return launch<PK_RANDOM_LOGNORMAL, double>(given, blocks, queue);
            case PK_RANDOM_GAMMA:
                return is_wide ? launch<PK_RANDOM_GAMMA, double>(given, blocks, queue)
                               : launch<PK_RANDOM_GAMMA, float>(given, blocks, queue);
            case PK_RANDOM_BETA: return launch<PK_RANDOM_BETA, double>(given, blocks, queue);
            case PK_RANDOM_GEOMETRIC: return launch<PK_RANDOM_GEOMETRIC, int64_t>(given, blocks, queue);
            default: return launch_integers(given, blocks, queue);
        }
    }

    void launch_integers(const Given &given, unsigned blocks, cudaStream_t queue) const {
        switch (layout.views[0].item) {
            case 1: return launch<PK_RANDOM_INTEGERS, uint8_t>(given, blocks, queue);
            case 2: return launch<PK_RANDOM_INTEGERS, uint16_t>(given, blocks, queue);
            case 4: return launch<PK_RANDOM_INTEGERS, uint32_t>(given, blocks, queue);
            default: return launch<PK_RANDOM_INTEGERS, uint64_t>(given, blocks, queue);
        }
    }

    template <int what, class T>
    void launch(const Given &given, unsigned blocks, cudaStream_t queue) const {
        const auto kernel = device::draw<what, T>;
        kernel<<<blocks, THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    const Request &request_;
    const plan::Homes &homes_;
    uint64_t constants_[2] = {};
};

// A parameter that all elements have is read on the host.
std::vector<plan::Span> spans_of(const Request &request) {
    std::vector<plan::Span> spans;
    for (size_t i = 0; i < request.layout.views.size(); ++i) {
        spans.emplace_back(request.layout, request.layout.views[i], i == 0);
        if (i != 0 && request.is_constant(int(i) - 1)) spans.back().may_be_home = false;
    }
    return spans;
}

void launch(const Request &request, Call &call) {
    if (request.layout.size == 0) return;
    const std::vector<int> devices = devices_of(call);
    plan::Homes homes(spans_of(request), call, devices, true);
    Drawing work(request, homes);
    stream(work, call, devices, {{0, work.units()}});
    homes.settle();
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
