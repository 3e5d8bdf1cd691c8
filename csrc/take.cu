// pk_take and pk_put on the CUDA engine. Take uploads the array and the indices once, gathers, and downloads
// the results chunk by chunk. Put scatters on the device if the array is there, else on the host.
#include <algorithm>
#include <cstring>

#include "common/take.h"
#include "common/types.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"

namespace pk::take {

namespace {

constexpr int THREADS = 256;
constexpr int64_t INDEX_BYTES = sizeof(int64_t);

// The gather's parameters. An element is copied as `words` words, each by one thread.
struct GatherParams {
    Source in;
    const int64_t *indices;
    int64_t taken, words;
    bool own_indices;  // each of the arrays has its own
};

// Gathers one chunk of the results, one word a thread.
template <class Word>
__global__ void take_chunk(GatherParams args, Word *out, int64_t start, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64_t item = (start + i) / args.words, word = (start + i) % args.words;
    const int64_t array = item / args.taken;
    const int64_t index = args.indices[args.own_indices ? item : item % args.taken];
    const int64_t from = array * args.in.count + place_of(index, args.in.count);
    out[i] = reinterpret_cast<const Word *>(args.in.elements)[from * args.words + word];
}

// Finds the least and the greatest index.
__global__ void find_range(const int64_t *indices, int64_t count, long long *range) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    long long least = indices[0], greatest = indices[0];
    for (int64_t i = first; i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const long long index = indices[i];
        least = index < least ? index : least;
        greatest = index > greatest ? index : greatest;
    }
    for (int distance = warpSize / 2; distance > 0; distance /= 2) {
        const long long low = __shfl_down_sync(~0u, least, distance);
        const long long high = __shfl_down_sync(~0u, greatest, distance);
        least = low < least ? low : least;
        greatest = high > greatest ? high : greatest;
    }
    if (threadIdx.x % warpSize != 0) return;
    atomicMin(range, least);
    atomicMax(range + 1, greatest);
}

// Finds the range of indices that are on the device, for the host, which checks it.
class IndexRangeAlgorithm : public DeviceAlgorithm {
   public:
    IndexRangeAlgorithm(const char *indices, int64_t count)
        : indices_(reinterpret_cast<const int64_t *>(indices)), count_(count) {
        returns_state = true;
        counts_progress = false;
    }

    int64_t start(int64_t unit) const override { return unit * count_; }
    int64_t state_bytes() const override { return sizeof(range); }
    void begin(char *d_state, cudaStream_t stream) override {
        // Bytes of 0x7f and 0x80 make initial values above and below any valid index.
        PK_CUDA(cudaMemsetAsync(d_state, 0x7f, sizeof(range.least), stream));
        PK_CUDA(cudaMemsetAsync(d_state + sizeof(range.least), 0x80, sizeof(range.greatest), stream));
    }
    void enqueue(const Chunk &chunk) override {
        constexpr int64_t MAX_BLOCKS = 1024;
        const unsigned blocks = grid_for(count_, THREADS, MAX_BLOCKS);
        find_range<<<blocks, THREADS, 0, chunk.stream>>>(indices_, count_,
                                                         reinterpret_cast<long long *>(chunk.d_state));
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}
    void take_state(const char *state) override { std::memcpy(&range, state, sizeof(range)); }

    Range range{};

   private:
    const int64_t *const indices_;
    const int64_t count_;
};

// Throw unless all indices are in bounds for so many elements. They are read where they are.
void check_indices(const int64_t *indices, int64_t count, int64_t elements, Call &call,
                   const ExecutionContext &context) {
    Operands operands({{indices, count * INDEX_BYTES, INDEX_BYTES, false}}, call, context);
    const char *const d_indices = operands.of(0).d_data;
    if (d_indices == nullptr) return require_in_bounds(elements, index_range(indices, count, call));
    IndexRangeAlgorithm algorithm(d_indices, count);
    execute(algorithm, operands, call, context);
    operands.commit();
    require_in_bounds(elements, algorithm.range);
}

// Return the bytes of the widest word, up to 8, that both addresses and the element's width are multiples of.
int64_t word_bytes_of(const void *one, const void *other, int64_t width) {
    const auto places =
        reinterpret_cast<uintptr_t>(one) | reinterpret_cast<uintptr_t>(other) | uintptr_t(width);
    return int64_t(places & 7 ? (places & 3 ? (places & 1 ? 1 : 2) : 4) : 8);
}

// Indices of a take's operands.
enum { OUT, IN, INDICES };

// The gather of all results.
class TakeAlgorithm : public DeviceAlgorithm {
   public:
    TakeAlgorithm(const Layout &layout, const Request &args, const Operands &operands, Call &call,
                  const ExecutionContext &context)
        : DeviceAlgorithm(layout, {}, operands.stores(OUT), 0, 0), operands_(operands) {
        can_run_async = true;
        const int64_t word_bytes = layout.views[0].item;
        gather_ = {args.in, args.indices, args.taken, args.in.width / word_bytes, args.own_indices};
        if (operands.of(IN).d_data == nullptr) in_ = broadcasts_.add(args.in.elements, args.in_bytes());
        if (operands.of(INDICES).d_data == nullptr) {
            indices_ = broadcasts_.add(args.indices, args.index_count() * INDEX_BYTES);
        }
        if (!broadcasts_.upload(call, context)) fail_device_budget("the array to take from");
    }

    void enqueue(const Chunk &chunk) override {
        GatherParams args = gather_;
        args.in.elements = in_ < 0 ? operands_.of(IN).d_data : broadcasts_.d_data(chunk.device_index) + in_;
        args.indices = reinterpret_cast<const int64_t *>(
            indices_ < 0 ? operands_.of(INDICES).d_data : broadcasts_.d_data(chunk.device_index) + indices_);
        switch (layout.views[0].item) {
            case 1: return launch<uint8_t>(args, chunk);
            case 2: return launch<uint16_t>(args, chunk);
            case 4: return launch<uint32_t>(args, chunk);
            default: return launch<uint64_t>(args, chunk);
        }
    }
    void collect(const void *) override {}

   private:
    template <class Word>
    void launch(const GatherParams &args, const Chunk &chunk) const {
        auto *const out = reinterpret_cast<Word *>(operands_.d_data(*this, chunk, OUT));
        const auto blocks = grid_for(chunk.count, THREADS);
        take_chunk<Word><<<blocks, THREADS, 0, chunk.stream>>>(args, out, chunk.start, chunk.count);
        PK_CUDA(cudaGetLastError());
    }

    const Operands &operands_;
    GatherParams gather_{};
    BroadcastBuffers broadcasts_;
    int64_t in_ = -1, indices_ = -1;  // offsets in broadcasts_; -1: device-resident
};

void launch(const Request &args, Call &call) {
    if (args.elements() == 0) return;
    const ExecutionContext context(call);
    const int64_t word_bytes = word_bytes_of(args.in.elements, args.out, args.in.width),
                  words = args.out_bytes() / word_bytes;
    const Layout layout = Layout::contiguous({{args.out, word_type(word_bytes)}}, words);
    if (!args.indices_in_bounds)
        check_indices(args.indices, args.index_count(), args.in.count, call, context);
    Operands operands({{args.out, args.out_bytes(), word_bytes, true},
                       {args.in.elements, args.in_bytes(), word_bytes, false},
                       {args.indices, args.index_count() * INDEX_BYTES, INDEX_BYTES, false}},
                      call, context);
    TakeAlgorithm algorithm(layout, args, operands, call, context);
    execute(algorithm, operands, call, context);
    operands.commit();
}

// ---- Put ------------------------------------------------------------------------------------------------

// The scatter's parameters. An element is copied as `words` words.
struct ScatterParams {
    const int64_t *indices;
    int64_t index_count, count, value_count, words;
};

// Finds, for each element, the number of the last value that is put to it, from 1 on. As in NumPy, the
// last value counts.
__global__ void find_last(ScatterParams args, unsigned long long *last) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < args.index_count;
         i += int64_t(gridDim.x) * blockDim.x)
        atomicMax(last + place_of(args.indices[i], args.count), (unsigned long long)(i + 1));
}

// Scatters the values, of each element only the last one. Without `last` all values are the same.
template <class Word>
__global__ void put_last(ScatterParams args, const unsigned long long *last, const Word *values,
                         Word *array) {
    const int64_t words = args.index_count * args.words;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
         i += int64_t(gridDim.x) * blockDim.x) {
        const int64_t number = i / args.words, word = i % args.words;
        const int64_t place = place_of(args.indices[number], args.count);
        if (last != nullptr && last[place] != (unsigned long long)(number + 1)) continue;
        array[place * args.words + word] = values[number % args.value_count * args.words + word];
    }
}

constexpr int64_t MAX_PUT_BLOCKS = 1 << 16;

template <class Word>
void put_words(const ScatterParams &args, const unsigned long long *last, const char *values, char *array,
               cudaStream_t stream) {
    put_last<Word><<<grid_for(args.index_count * args.words, THREADS, MAX_PUT_BLOCKS), THREADS, 0, stream>>>(
        args, last, reinterpret_cast<const Word *>(values), reinterpret_cast<Word *>(array));
    PK_CUDA(cudaGetLastError());
}

// The scatter of values into an array on the device. Indices and values that are not there are uploaded.
class PutAlgorithm : public DeviceAlgorithm {
   public:
    PutAlgorithm(const PutRequest &args, int64_t word_bytes, const Operands &operands, Call &call,
                 const ExecutionContext &context)
        : scatter_{nullptr, args.index_count, args.count, args.value_count, args.width / word_bytes},
          word_bytes_(word_bytes),
          operands_(operands) {
        if (operands.of(INDICES).d_data == nullptr)
            indices_ = broadcasts_.add(args.indices, args.index_bytes());
        if (operands.of(VALUES).d_data == nullptr) values_ = broadcasts_.add(args.values, args.value_bytes());
        has_memory = broadcasts_.upload(call, context);
    }

    int64_t start(int64_t unit) const override { return unit * scatter_.index_count; }
    // For each element of the array, the last value that is put to it.
    int64_t temporary_bytes(int64_t) const override {
        return scatter_.value_count > 1 ? scatter_.count * int64_t(sizeof(int64_t)) : 0;
    }

    void enqueue(const Chunk &chunk) override {
        ScatterParams scatter = scatter_;
        scatter.indices = reinterpret_cast<const int64_t *>(d_data(INDICES, indices_));
        unsigned long long *last = nullptr;
        if (const int64_t bytes = temporary_bytes(1)) {
            last = reinterpret_cast<unsigned long long *>(chunk.d_memory + chunk.scratch);
            PK_CUDA(cudaMemsetAsync(last, 0, size_t(bytes), chunk.stream));
            find_last<<<grid_for(scatter.index_count, THREADS, MAX_PUT_BLOCKS), THREADS, 0, chunk.stream>>>(
                scatter, last);
            PK_CUDA(cudaGetLastError());
        }
        const char *const values = d_data(VALUES, values_);
        char *const array = operands_.of(ARRAY).d_data;
        switch (word_bytes_) {
            case 1: return put_words<uint8_t>(scatter, last, values, array, chunk.stream);
            case 2: return put_words<uint16_t>(scatter, last, values, array, chunk.stream);
            case 4: return put_words<uint32_t>(scatter, last, values, array, chunk.stream);
            default: return put_words<uint64_t>(scatter, last, values, array, chunk.stream);
        }
    }
    void collect(const void *) override {}

    // Indices of the operands. The array is read, too: most of it may stay as it is.
    enum { OLD_ARRAY, ARRAY, INDICES, VALUES };
    bool has_memory = false;

   private:
    const char *d_data(int operand, int64_t offset) const {
        return offset < 0 ? operands_.of(operand).d_data : broadcasts_.d_data(0) + offset;
    }

    const ScatterParams scatter_;
    const int64_t word_bytes_;
    const Operands &operands_;
    BroadcastBuffers broadcasts_;
    int64_t indices_ = -1, values_ = -1;  // offsets in broadcasts_; -1: on the device
};

// Put values into an array that is on the device. Return false if it is not, or if memory is short.
bool put_on_device(const PutRequest &args, Call &call, const ExecutionContext &context) {
    const int64_t word_bytes = word_bytes_of(args.array, args.values, args.width);
    const MemoryRange array(args.array, args.array_bytes(), word_bytes, true);
    if (!all_resident({array}, context)) return false;
    check_indices(args.indices, args.index_count, args.count, call, context);
    Operands operands({{args.array, args.array_bytes(), word_bytes, false},
                       array,
                       {args.indices, args.index_bytes(), INDEX_BYTES, false},
                       {args.values, args.value_bytes(), word_bytes, false}},
                      call, context);
    operands.d_result(PutAlgorithm::ARRAY);  // it may be downloaded at the end
    PutAlgorithm algorithm(args, word_bytes, operands, call, context);
    if (!algorithm.has_memory || !try_execute(algorithm, operands, call, context)) return false;
    operands.commit();
    return true;
}

void launch_put(const PutRequest &args, Call &call) {
    const ExecutionContext context(call);
    if (args.index_count == 0 || put_on_device(args, call, context)) return;
    Operands operands(on_host({{args.array, args.array_bytes(), 1, true},
                               {args.indices, args.index_bytes(), 1, false},
                               {args.values, args.value_bytes(), 1, false}}),
                      call, context);
    require_in_bounds(args.count, index_range(args.indices, args.index_count, call));
    put_on_host(args, call);
    operands.commit();
}

}  // namespace

}  // namespace pk::take

extern "C" int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices,
                          int64_t index_count, const uint8_t *values, int64_t value_count,
                          const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::take::PutRequest(array, count, width, indices, index_count, values, value_count); },
        pk::take::launch_put);
}

extern "C" int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width,
                           const int64_t *indices, int64_t index_count, int64_t flags, uint8_t *out,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::take::Request({reinterpret_cast<const char *>(in), outer, count, width}, indices,
                                     index_count, flags, out);
        },
        pk::take::launch);
}
