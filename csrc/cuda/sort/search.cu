// Searching on a GPU: what is sorted goes up first, in parts if need be, and the values are streamed past it.
#include "common/sort.h"
#include "cuda/stream/resident.h"
#include "cuda/stream/stream.h"

namespace pk {

namespace {

constexpr int THREADS = 256;

template <class Order, class Key>
__global__ void find_each(Order order, const Key *sorted, int64_t size, const Key *values, int64_t count,
                          bool right, const int64_t *before, int64_t *places) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    auto key_at = [=](int64_t at) { return order.key(sorted[at]); };
    const int64_t place = place_of(key_at, size, order.key(values[i]), right);
    places[i] = place + (before == nullptr ? 0 : before[i]);
}

// Looks for values in a part of what is sorted, which goes up once: the parts' places add up.
template <class Order>
class Searcher : public Work {
   public:
    Searcher(const Order &ordering, const Layout &layout, bool is_first, const void *sorted, int64_t size,
             bool right, Call &call, const std::vector<int> &devices)
        : Work(layout, is_first ? std::vector<Carried>{{0, 0}} : std::vector<Carried>{{0, 0}, {1, 0}},
               {{1, 0}}, 0, 0),
          ordering_(ordering),
          size_(size),
          right_(right) {
        if (size != 0) offset_ = resident_.add(sorted, size * int64_t(sizeof(Key)));
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) override {
        const auto blocks = unsigned((chunk.count + THREADS - 1) / THREADS);
        auto at = [&](const Carried &carried) { return chunk.memory + chunk.operand(carried); };
        find_each<<<blocks, THREADS, 0, chunk.queue>>>(
            ordering_, reinterpret_cast<const Key *>(resident_.on(chunk.device) + offset_), size_,
            reinterpret_cast<const Key *>(at(loads[0])), chunk.count, right_,
            loads.size() == 1 ? nullptr : reinterpret_cast<const int64_t *>(at(loads[1])),
            reinterpret_cast<int64_t *>(at(stores[0])));
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

    bool has_room = false;

   private:
    using Key = typename Order::Key;
    const Order ordering_;
    const int64_t size_;
    const bool right_;
    Resident resident_;
    int64_t offset_ = 0;
};

pk_type type_of_bits(int bytes) {
    switch (bytes) {
        case 1: return PK_UINT8;
        case 2: return PK_UINT16;
        case 4: return PK_UINT32;
        default: return PK_UINT64;
    }
}

}  // namespace

void find_places(const SearchRequest &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    pk_operand operands[2] = {};
    operands[0].address = reinterpret_cast<uint64_t>(given.values);
    operands[0].type = type_of_bits(given.type.bytes);
    operands[0].strides[0] = given.type.bytes;
    operands[1].address = reinterpret_cast<uint64_t>(given.places);
    operands[1].type = PK_INT64;
    operands[1].strides[0] = sizeof(int64_t);
    const Layout layout(operands, 2, &given.count, 1, {false, true});
    with_late_ordering(given.type, false, true, [&](auto ordering) {
        using Order = decltype(ordering);
        constexpr int64_t LEAST = 1 << 10;
        const auto *const sorted = static_cast<const typename Order::Key *>(given.sorted);
        int64_t most = std::max<int64_t>(given.size, 1);
        for (int64_t start = 0; start == 0 || start < given.size;) {
            const int64_t size = std::min(most, given.size - start);
            Searcher<Order> searcher(ordering, layout, start == 0, sorted + start, size, given.right, call,
                                     devices);
            if (searcher.has_room) {
                stream(searcher, call, devices, {{0, given.count}});
                start += std::max<int64_t>(size, 1);
            } else if (most < LEAST) {
                fail(PK_OUT_OF_MEMORY,
                     "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to search in");
            } else {
                most /= 2;
            }
        }
    });
}

}  // namespace pk
