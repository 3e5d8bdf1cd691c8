// Searching on a GPU: what is sorted goes up first, in parts if need be, and the values are streamed past it.
#include "common/sort.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"

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

// A part of what is sorted.
struct Part {
    const void *elements;
    int64_t size;
    bool is_first;
};

enum Operand { VALUES, PLACES, SORTED };

// Looks for values in a part, which goes up once, if it is not at home: the parts' places add up.
template <class Order>
class Searcher : public Work {
   public:
    Searcher(const Order &ordering, const Layout &layout, const Part &part, bool right,
             const plan::Homes &homes, Call &call, const std::vector<int> &devices)
        : Work(layout,
               homes.loads(part.is_first ? std::vector<int>{VALUES} : std::vector<int>{VALUES, PLACES}),
               homes.stores(PLACES), 0, 0),
          ordering_(ordering),
          part_(part),
          right_(right),
          homes_(homes) {
        may_queue = true;
        const bool goes_up = homes.of(SORTED).at == nullptr && part.size != 0;
        if (goes_up) offset_ = resident_.add(part.elements, part.size * int64_t(sizeof(Key)));
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) override {
        const auto blocks = unsigned((chunk.count + THREADS - 1) / THREADS);
        const char *const home = homes_.of(SORTED).at;
        const char *const sorted = home != nullptr ? home : resident_.on(chunk.device) + offset_;
        // Where they go over the link, the places so far come up beside those that go down.
        char *const before = part_.is_first ? nullptr : homes_.at(*this, chunk, PLACES);
        char *const places = homes_.of(PLACES).at != nullptr ? homes_.at(*this, chunk, PLACES)
                                                             : chunk.memory + chunk.operand(stores[0]);
        find_each<<<blocks, THREADS, 0, chunk.queue>>>(
            ordering_, reinterpret_cast<const Key *>(sorted), part_.size,
            reinterpret_cast<const Key *>(homes_.at(*this, chunk, VALUES)), chunk.count, right_,
            reinterpret_cast<const int64_t *>(before), reinterpret_cast<int64_t *>(places));
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

    bool has_room = false;

   private:
    using Key = typename Order::Key;
    const Order ordering_;
    const Part part_;
    const bool right_;
    const plan::Homes &homes_;
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
    const int64_t item = given.type.bytes, word = sizeof(int64_t);
    const plan::Span sorted(given.sorted, given.size * item, item, false);
    plan::Span values(given.values, given.count * item, item, false);
    // In parts of what is sorted, values that arrive would do so with each.
    const bool is_there = given.size != 0 && plan::have_homes({sorted}, devices);
    values.may_arrive = is_there;
    plan::Homes homes({values, {given.places, given.count * word, word, true}, sorted}, call, devices, true);
    with_late_ordering(given.type, false, true, [&](auto ordering) {
        using Order = decltype(ordering);
        constexpr int64_t LEAST = 1 << 10;
        const auto *const elements = static_cast<const typename Order::Key *>(given.sorted);
        int64_t most = std::max<int64_t>(given.size, 1);
        for (int64_t start = 0; start == 0 || start < given.size;) {
            const Part part{elements + start, std::min(most, given.size - start), start == 0};
            Searcher<Order> searcher(ordering, layout, part, given.right, homes, call, devices);
            if (searcher.has_room) {
                stream(searcher, call, devices, {{0, given.count}});
                start += std::max<int64_t>(part.size, 1);
            } else if (most < LEAST) {
                fail(PK_OUT_OF_MEMORY,
                     "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to search in");
            } else {
                most /= 2;
            }
        }
    });
    homes.settle();
}

}  // namespace pk
