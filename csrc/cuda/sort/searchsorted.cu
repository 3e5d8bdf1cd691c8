// searchsorted on a GPU: the sorted array is uploaded, then the values are streamed past it, and each thread
// does a binary search. If the sorted array does not fit, this is repeated for each part of it, and an
// element's positions in the parts add up.
#include "common/sort.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"

namespace pk {

namespace {

constexpr int THREADS = 256;

// Searches a part of the sorted array for each value, and adds `before`, the sum of the value's places in
// earlier parts (null for the first part).
template <class Order, class Key>
__global__ void searchsorted(Order order, const Key *sorted, int64_t size, const Key *values, int64_t count,
                             bool right, const int64_t *before, int64_t *places) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    auto key_at = [=](int64_t at) { return order.key(sorted[at]); };
    const int64_t place = place_of(key_at, size, order.key(values[i]), right);
    places[i] = place + (before == nullptr ? 0 : before[i]);
}

// A part of the sorted array.
struct SortedPart {
    const void *elements;
    int64_t size;
    bool is_first;
};

enum { VALUES, PLACES, SORTED };

// Searches a part of the sorted array for all values. The part is uploaded once, unless it is
// device-resident; the places in all parts add up.
template <class Order>
class SearchsortedAlgorithm : public DeviceAlgorithm {
   public:
    SearchsortedAlgorithm(const Order &ordering, const Layout &layout, const SortedPart &part, bool right,
                          const Operands &operands, Call &call, const ExecutionContext &context)
        : DeviceAlgorithm(
              layout,
              operands.loads(part.is_first ? std::vector<int>{VALUES} : std::vector<int>{VALUES, PLACES}),
              operands.stores(PLACES), 0, 0),
          ordering_(ordering),
          part_(part),
          right_(right),
          operands_(operands) {
        can_run_async = true;
        const bool is_uploaded = operands.of(SORTED).d_data == nullptr && part.size != 0;
        if (is_uploaded) offset_ = broadcasts_.add(part.elements, part.size * int64_t(sizeof(Key)));
        has_memory = broadcasts_.upload(call, context);
    }

    void enqueue(const Chunk &chunk) override {
        const auto blocks = grid_for(chunk.count, THREADS);
        const char *const d_resident = operands_.of(SORTED).d_data;
        const char *const sorted =
            d_resident != nullptr ? d_resident : broadcasts_.d_data(chunk.device_index) + offset_;
        // Places that are not resident are uploaded and downloaded in separate buffers of the chunk.
        char *const before = part_.is_first ? nullptr : operands_.d_data(*this, chunk, PLACES);
        char *const places = operands_.of(PLACES).d_data != nullptr
                                 ? operands_.d_data(*this, chunk, PLACES)
                                 : chunk.d_memory + chunk.operand(stores[0]);
        searchsorted<<<blocks, THREADS, 0, chunk.stream>>>(
            ordering_, reinterpret_cast<const Key *>(sorted), part_.size,
            reinterpret_cast<const Key *>(operands_.d_data(*this, chunk, VALUES)), chunk.count, right_,
            reinterpret_cast<const int64_t *>(before), reinterpret_cast<int64_t *>(places));
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

    bool has_memory = false;

   private:
    using Key = typename Order::Key;
    const Order ordering_;
    const SortedPart part_;
    const bool right_;
    const Operands &operands_;
    BroadcastBuffers broadcasts_;
    int64_t offset_ = 0;
};

}  // namespace

void find_positions(const SearchRequest &request, Call &call) {
    const ExecutionContext context(call);
    const Layout layout = Layout::contiguous(
        {{request.values, word_type(request.type.bytes)}, {request.places, PK_INT64}}, request.count);
    const int64_t item = request.type.bytes, word = sizeof(int64_t);
    const MemoryRange sorted(request.sorted, request.size * item, item, false);
    MemoryRange values(request.values, request.count * item, item, false);
    // With several parts, values that are uploaded chunk by chunk would be uploaded for each part.
    const bool sorted_is_resident = request.size != 0 && all_resident({sorted}, context);
    values.may_upload_by_chunk = sorted_is_resident;
    Operands operands({values, {request.places, request.count * word, word, true}, sorted}, call, context);
    with_runtime_key_encoding(request.type, false, true, [&](auto ordering) {
        using Order = decltype(ordering);
        constexpr int64_t MIN_COUNT = 1 << 10;
        const auto *const elements = static_cast<const typename Order::Key *>(request.sorted);
        int64_t part_size = std::max<int64_t>(request.size, 1);
        for (int64_t start = 0; start == 0 || start < request.size;) {
            const SortedPart part{elements + start, std::min(part_size, request.size - start), start == 0};
            SearchsortedAlgorithm<Order> algorithm(ordering, layout, part, request.right, operands, call,
                                                   context);
            if (algorithm.has_memory) {
                execute(algorithm, operands, call, context);
                start += std::max<int64_t>(part.size, 1);
            } else if (part_size < MIN_COUNT) {
                fail_device_budget("the sorted array");
            } else {
                part_size /= 2;
            }
        }
    });
    operands.commit();
}

}  // namespace pk
