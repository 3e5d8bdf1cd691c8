// pk_random on the CUDA engine: Philox4x64-10 (Salmon et al. 2011), whose counter gives every element its
// words independently of all others, and NumPy's distributions.
#include <algorithm>

#include "common/random.h"
#include "cuda/residency/execute.h"

namespace pk::random {

static int device_of(const Request &request) { return pk::device_of(request.layout); }

namespace {

constexpr int THREADS = 256;
constexpr int WORDS = THREADS * philox::WORDS;  // random words that a block of threads computes

// A parameter of a distribution, as bits: one for all elements, or one for each.
struct Parameter {
    const uint64_t *per_element;  // null: `scalar`
    uint64_t scalar;

    template <class T>
    __device__ T at(int64_t i) const {
        return bit_cast<T>(per_element != nullptr ? per_element[i] : scalar);
    }
};

// The kernel's parameters: it draws `count` elements from `start` on, and writes them to `to`.
struct RandomParams {
    PhiloxStreams streams;
    Parameter a, b;
    void *to;
    int64_t start, count;
    int64_t first_block;  // Philox block of the chunk's first word
    uint32_t half;        // half a word that an earlier call left, if has_half
    bool has_half, has_parameters;
};

namespace device {

// True if an element takes half a word: those of 32 bits.
template <int distribution, class T>
constexpr bool takes_halves = sizeof(T) == 4 && distribution <= PK_RANDOM_EXPONENTIAL;

// The number of Philox streams that every element has a word of. (Elements that are drawn again read further
// streams.)
template <int distribution>
constexpr int streams_of = distribution == PK_RANDOM_POISSON || distribution == PK_RANDOM_BINOMIAL ||
                                   distribution == PK_RANDOM_GAMMA || distribution == PK_RANDOM_BETA
                               ? 2
                               : 1;

// Return element i of the chunk, of 32 bits, from half a word.
template <int distribution, class T>
__device__ T value(const RandomParams &, int64_t, uint32_t bits, uint64_t) {
    if constexpr (distribution == PK_RANDOM_BITS) return bits;
    if constexpr (distribution == PK_RANDOM_UNIFORM) return uniform(bits);
    if constexpr (distribution == PK_RANDOM_NORMAL) return normal(bits);
    if constexpr (distribution == PK_RANDOM_EXPONENTIAL) return exponential(bits);
}

// Return element i of the chunk from a word and, where the distribution takes two, the same word of the next
// stream.
template <int distribution, class T>
__device__ T value(const RandomParams &params, int64_t i, uint64_t word, uint64_t second) {
    const auto element = uint64_t(params.start + i);
    if constexpr (distribution == PK_RANDOM_BITS) {
        return word;
    } else if constexpr (distribution == PK_RANDOM_INTEGERS) {
        return T(integer(params.a.at<uint64_t>(i), params.b.at<uint64_t>(i), word, params.streams, element));
    } else if constexpr (distribution == PK_RANDOM_POISSON) {
        return Poisson(params.a.at<double>(i)).draw(word, second, params.streams, element);
    } else if constexpr (distribution == PK_RANDOM_BINOMIAL) {
        return Binomial(params.a.at<int64_t>(i), params.b.at<double>(i))
            .draw(word, second, params.streams, element);
    } else if constexpr (distribution == PK_RANDOM_GEOMETRIC) {
        return geometric(exponential(word), geometric_step(params.a.at<double>(i)));
    } else if constexpr (distribution == PK_RANDOM_GAMMA) {
        const double drawn = gamma(params.a.at<double>(i), word, second, params.streams, element);
        return T(0.0 + params.b.at<double>(i) * drawn);
    } else if constexpr (distribution == PK_RANDOM_BETA) {
        return beta(params.a.at<double>(i), params.b.at<double>(i), word, second, params.streams, element);
    } else if constexpr (distribution == PK_RANDOM_LOGNORMAL) {
        return math::exp(params.a.at<double>(i) + params.b.at<double>(i) * normal(word));
    } else if constexpr (distribution == PK_RANDOM_EXPONENTIAL) {
        const double drawn = exponential(word);
        return params.has_parameters ? 0.0 + params.a.at<double>(i) * drawn : drawn;
    } else {
        const double drawn = distribution == PK_RANDOM_UNIFORM ? uniform(word) : normal(word);
        return params.has_parameters ? params.a.at<double>(i) + params.b.at<double>(i) * drawn : drawn;
    }
}

// Draws the elements of a chunk. A thread computes a Philox block of words into shared memory; from there
// neighbouring threads take neighbouring elements, so that stores are coalesced.
template <int distribution, class T>
__global__ void draw(RandomParams params) {
    constexpr int STREAMS = streams_of<distribution>;
    __shared__ uint64_t words[STREAMS * WORDS];
    const int64_t first = params.first_block + int64_t(blockIdx.x) * THREADS;
    for (int stream_index = 0; stream_index < STREAMS; ++stream_index) {
        const philox::Block block = params.streams.block(uint64_t(first) + threadIdx.x, stream_index);
        for (int j = 0; j < philox::WORDS; ++j) {
            words[stream_index * WORDS + int(threadIdx.x) * philox::WORDS + j] = block.word[j];
        }
    }
    __syncthreads();
    T *const to = static_cast<T *>(params.to);
    // The call's first word may be in the middle of a Philox block.
    const int64_t first_word = first * philox::WORDS - int64_t(params.streams.skipped);
    for (int k = int(threadIdx.x); k < WORDS; k += THREADS) {
        if (first_word + k < 0) continue;
        if constexpr (takes_halves<distribution, T>) {
            const int64_t i = 2 * (first_word + k) + int64_t(params.has_half) - params.start;
            const uint64_t word = words[k];
            if (i >= 0 && i < params.count) to[i] = value<distribution, T>(params, i, uint32_t(word), 0);
            if (i + 1 >= 0 && i + 1 < params.count) {
                to[i + 1] = value<distribution, T>(params, i + 1, uint32_t(word >> 32), 0);
            }
        } else {
            const int64_t i = first_word + k - params.start;
            if (i < 0 || i >= params.count) continue;
            to[i] = value<distribution, T>(params, i, words[k], words[(STREAMS - 1) * WORDS + k]);
        }
    }
    if constexpr (takes_halves<distribution, T>) {
        const bool is_first = params.start == 0 && blockIdx.x == 0 && threadIdx.x == 0;
        if (is_first && params.has_half) to[0] = value<distribution, T>(params, 0, params.half, 0);
    }
}

}  // namespace device

// The draw of a call's elements as a pipeline algorithm.
class RandomAlgorithm : public DeviceAlgorithm {
   public:
    RandomAlgorithm(const Request &request, const Operands &operands)
        : DeviceAlgorithm(request.layout, loads_of(request, operands), operands.stores(0), 0, 0),
          request_(request),
          operands_(operands) {
        can_run_async = true;
        for (int i = 0; i < request.parameters; ++i) {
            if (request.is_constant(i)) constants_[i] = request.constant(i);
        }
    }

    void enqueue(const Chunk &chunk) override {
        RandomParams params{};
        params.streams = request_.streams;
        params.a = parameter(chunk, 0);
        params.b = parameter(chunk, 1);
        params.to = operands_.d_data(*this, chunk, 0);
        params.start = chunk.start;
        params.count = chunk.count;
        params.half = request_.half;
        params.has_half = request_.has_half;
        params.has_parameters = request_.parameters != 0;
        int64_t first = chunk.start, last = chunk.start + chunk.count - 1;  // words
        if (request_.takes_halves()) {
            const auto before = int64_t(request_.has_half);
            first = std::max<int64_t>(0, first - before) / 2;
            last = std::max<int64_t>(0, last - before) / 2;
        }
        const auto skipped = int64_t(request_.streams.skipped);
        params.first_block = (first + skipped) / philox::WORDS;
        const int64_t philox_blocks = (last + skipped) / philox::WORDS - params.first_block + 1;
        launch(params, grid_for(philox_blocks, THREADS), chunk.stream);
    }

    void collect(const void *) override {}

   private:
    static std::vector<StreamedOperand> loads_of(const Request &request, const Operands &operands) {
        std::vector<int> loads;
        for (int i = 0; i < request.parameters; ++i) {
            if (!request.is_constant(i)) loads.push_back(1 + i);
        }
        return operands.loads(loads);
    }

    Parameter parameter(const Chunk &chunk, int index) const {
        return {reinterpret_cast<const uint64_t *>(operands_.d_data(*this, chunk, 1 + index)),
                constants_[index]};
    }

    void launch(const RandomParams &params, unsigned blocks, cudaStream_t stream) const {
        const bool is_wide = layout.views[0].item == 8;
        switch (request_.distribution) {
            case PK_RANDOM_BITS:
                return is_wide ? launch<PK_RANDOM_BITS, uint64_t>(params, blocks, stream)
                               : launch<PK_RANDOM_BITS, uint32_t>(params, blocks, stream);
            case PK_RANDOM_UNIFORM:
                return is_wide ? launch<PK_RANDOM_UNIFORM, double>(params, blocks, stream)
                               : launch<PK_RANDOM_UNIFORM, float>(params, blocks, stream);
            case PK_RANDOM_NORMAL:
                return is_wide ? launch<PK_RANDOM_NORMAL, double>(params, blocks, stream)
                               : launch<PK_RANDOM_NORMAL, float>(params, blocks, stream);
            case PK_RANDOM_EXPONENTIAL:
                return is_wide ? launch<PK_RANDOM_EXPONENTIAL, double>(params, blocks, stream)
                               : launch<PK_RANDOM_EXPONENTIAL, float>(params, blocks, stream);
            case PK_RANDOM_POISSON: return launch<PK_RANDOM_POISSON, int64_t>(params, blocks, stream);
            case PK_RANDOM_BINOMIAL: return launch<PK_RANDOM_BINOMIAL, int64_t>(params, blocks, stream);
            case PK_RANDOM_LOGNORMAL: return launch<PK_RANDOM_LOGNORMAL, double>(params, blocks, stream);
            case PK_RANDOM_GAMMA:
                return is_wide ? launch<PK_RANDOM_GAMMA, double>(params, blocks, stream)
                               : launch<PK_RANDOM_GAMMA, float>(params, blocks, stream);
            case PK_RANDOM_BETA: return launch<PK_RANDOM_BETA, double>(params, blocks, stream);
            case PK_RANDOM_GEOMETRIC: return launch<PK_RANDOM_GEOMETRIC, int64_t>(params, blocks, stream);
            default: return launch_integers(params, blocks, stream);
        }
    }

    void launch_integers(const RandomParams &params, unsigned blocks, cudaStream_t stream) const {
        switch (layout.views[0].item) {
            case 1: return launch<PK_RANDOM_INTEGERS, uint8_t>(params, blocks, stream);
            case 2: return launch<PK_RANDOM_INTEGERS, uint16_t>(params, blocks, stream);
            case 4: return launch<PK_RANDOM_INTEGERS, uint32_t>(params, blocks, stream);
            default: return launch<PK_RANDOM_INTEGERS, uint64_t>(params, blocks, stream);
        }
    }

    template <int distribution, class T>
    void launch(const RandomParams &params, unsigned blocks, cudaStream_t stream) const {
        const auto kernel = device::draw<distribution, T>;
        kernel<<<blocks, THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    const Request &request_;
    const Operands &operands_;
    uint64_t constants_[2] = {};
};

// Return the operands' memory ranges. A parameter that all elements share is read on the host.
std::vector<MemoryRange> memory_ranges_of(const Request &request) {
    std::vector<MemoryRange> memory_ranges;
    for (size_t i = 0; i < request.layout.views.size(); ++i) {
        memory_ranges.emplace_back(request.layout, request.layout.views[i], i == 0);
        if (i != 0 && request.is_constant(int(i) - 1)) memory_ranges.back().may_be_resident = false;
    }
    return memory_ranges;
}

void launch(const Located<Request> &request, Call &call) {
    if (request.layout.size == 0) return;
    const ExecutionContext context(call, request.device);
    Operands operands(memory_ranges_of(request), call, context);
    RandomAlgorithm algorithm(request, operands);
    execute(algorithm, operands, call, context);
    operands.commit();
}

}  // namespace

}  // namespace pk::random

extern "C" int32_t pk_random(const pk_draws *draws, const pk_operand *operands, int64_t operand_count,
                             const int64_t *shape, int64_t dimensions, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Located<pk::random::Request>(draws, operands, operand_count, shape, dimensions,
                                                    PK_OPERAND_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::random::launch);
}
