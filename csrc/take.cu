// Elements by their indices on a GPU: the array and the indices go up once, and what is taken streams down.
// What is put is put where the array is.
#include <algorithm>

#include "common/take.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"

namespace pk::take {

namespace {

constexpr int THREADS = 256;

// An element is copied in units, of as many bytes as a thread copies at once.
struct Gather {
    Source in;
    const int64_t *indices;
    int64_t picked, units;
    bool each;
};

template <class Unit>
__global__ void take_chunk(Gather given, Unit *out, int64_t start, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64_t item = (start + i) / given.units, unit = (start + i) % given.units;
    const int64_t array = item / given.picked;
    const int64_t index = given.indices[given.each ? item : item % given.picked];
    const int64_t from = array * given.in.count + place_of(index, given.in.count);
    out[i] = reinterpret_cast<const Unit *>(given.in.elements)[from * given.units + unit];
}

__global__ void find_range(const int64_t *indices, int64_t count, long long *range) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    long long least = indices[0], greatest = indices[0];
    for (int64_t i = first; i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const long long index = indices[i];
        least = index < least ? index : least;
        greatest = index > greatest ? index : greatest;
    }
    for (int apart = warpSize / 2; apart > 0; apart /= 2) {
        const long long low = __shfl_down_sync(~0u, least, apart);
        const long long high = __shfl_down_sync(~0u, greatest, apart);
        least = low < least ? low : least;
        greatest = high > greatest ? high : greatest;
    }
    if (threadIdx.x % warpSize != 0) return;
    atomicMin(range, least);
    atomicMax(range + 1, greatest);
}

// Of indices that lie on a device.
Range range_there(const int64_t *indices, int64_t count, int device, Call &call) {
    constexpr int64_t MOST_BLOCKS = 1024;
    const CurrentDevice current(device);
    Range range;
    const Block found(device, sizeof(range));
    if (found.memory() == nullptr) {
        fail(PK_OUT_OF_MEMORY,
             "other calls have too much of PYCUDAKIT_DEVICE_MEMORY, and too little is left to look at "
             "indices");
    }
    Line::wait();
    const Stream stream = pk::stream();
    const Queue queue(stream);
    // What bytes of 0x7f and 0x80 mean is beyond any index that has a place.
    PK_CUDA(cudaMemsetAsync(found.memory(), 0x7f, sizeof(range.least), queue.get()));
    PK_CUDA(cudaMemsetAsync(found.memory() + sizeof(range.least), 0x80, sizeof(range.greatest), queue.get()));
    const auto blocks = unsigned(std::min(MOST_BLOCKS, (count + THREADS - 1) / THREADS));
    find_range<<<blocks, THREADS, 0, queue.get()>>>(indices, count,
                                                    reinterpret_cast<long long *>(found.memory()));
    PK_CUDA(cudaGetLastError());
    PK_CUDA(cudaMemcpyAsync(&range, found.memory(), sizeof(range), cudaMemcpyDeviceToHost, queue.get()));
    PK_CUDA(cudaStreamSynchronize(queue.get()));
    call.report.bytes_down += int64_t(sizeof(range));
    return range;
}

int64_t unit_of(const void *one, const void *other, int64_t width) {
    const auto places =
        reinterpret_cast<uintptr_t>(one) | reinterpret_cast<uintptr_t>(other) | uintptr_t(width);
    return int64_t(places & 7 ? (places & 3 ? (places & 1 ? 1 : 2) : 4) : 8);
}

pk_operand operand_of(const Request &given, int64_t unit) {
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(given.out);
    operand.type = unit == 8 ? PK_UINT64 : unit == 4 ? PK_UINT32 : unit == 2 ? PK_UINT16 : PK_UINT8;
    operand.strides[0] = unit;
    return operand;
}

class Taking : public Work {
   public:
    Taking(const Layout &layout, const Request &given, const plan::Homes &homes, Call &call,
           const std::vector<int> &devices)
        : Work(layout, {}, homes.stores(0), 0, 0), homes_(homes) {
        may_queue = true;
        const int64_t unit = layout.views[0].item;
        gather_ = {given.in, given.indices, given.picked, given.in.width / unit, given.each};
        if (homes.of(1).at == nullptr) in_ = arrays_.add(given.in.elements, given.in_bytes());
        if (homes.of(2).at == nullptr) {
            indices_ = arrays_.add(given.indices, given.index_count() * int64_t(sizeof(int64_t)));
        }
        if (!arrays_.upload(call, devices)) {
            fail(PK_OUT_OF_MEMORY,
                 "PYCUDAKIT_DEVICE_MEMORY has no room for the array, or other calls have too much of it");
        }
    }

    void launch(const Chunk &chunk) override {
        Gather given = gather_;
        given.in.elements = in_ < 0 ? homes_.of(1).at : arrays_.on(chunk.device) + in_;
        given.indices = reinterpret_cast<const int64_t *>(indices_ < 0 ? homes_.of(2).at
                                                                       : arrays_.on(chunk.device) + indices_);
        switch (layout.views[0].item) {
            case 1: return launch<uint8_t>(given, chunk);
            case 2: return launch<uint16_t>(given, chunk);
            case 4: return launch<uint32_t>(given, chunk);
            default: return launch<uint64_t>(given, chunk);
        }
    }
    void collect(const void *) override {}

   private:
    template <class Unit>
    void launch(const Gather &given, const Chunk &chunk) const {
        auto *const out = reinterpret_cast<Unit *>(homes_.at(*this, chunk, 0));
        const auto blocks = unsigned((chunk.count + THREADS - 1) / THREADS);
        take_chunk<Unit><<<blocks, THREADS, 0, chunk.queue>>>(given, out, chunk.start, chunk.count);
        PK_CUDA(cudaGetLastError());
    }

    const plan::Homes &homes_;
    Gather gather_{};
    Resident arrays_;
    int64_t in_ = -1, indices_ = -1;  // where they are in there; at home, if nowhere
};

void launch(const Request &given, Call &call) {
    if (given.elements() == 0) return;
    const std::vector<int> devices = devices_of(call);
    const int64_t unit = unit_of(given.in.elements, given.out, given.in.width),
                  units = given.out_bytes() / unit;
    const pk_operand operand = operand_of(given, unit);
    const Layout layout(&operand, 1, &units, 1, {true});
    const int64_t word = sizeof(int64_t);
    const plan::Span indices(given.indices, given.index_count() * word, word, false);
    // Before anything is written they are looked at: where they are at home, there.
    const bool are_there = plan::have_homes({indices}, devices);
    if (!are_there) {
        plan::bring_down({indices}, call);
        if (!given.are_known)
            require_places(given.in.count, range_of(given.indices, given.index_count(), call));
    }
    plan::Homes homes({{given.out, given.out_bytes(), unit, true},
                       {given.in.elements, given.in_bytes(), unit, false},
                       indices},
                      call, devices, true);
    if (are_there && !given.are_known) {
        const auto *const home = reinterpret_cast<const int64_t *>(homes.of(2).at);
        require_places(given.in.count, range_there(home, given.index_count(), devices[0], call));
    }
    Taking work(layout, given, homes, call, devices);
    stream(work, call, devices, {{0, units}});
    homes.settle();
}

// ---- Put ------------------------------------------------------------------------------------------------

// What is put, in units.
struct Scatter {
    const int64_t *indices;
    int64_t put, count, value_count, units;
};

// Of each element, the number of the last value that it is given, from 1 on.
__global__ void find_last(Scatter given, unsigned long long *last) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < given.put;
         i += int64_t(gridDim.x) * blockDim.x)
        atomicMax(last + place_of(given.indices[i], given.count), (unsigned long long)(i + 1));
}

template <class Unit>
__global__ void put_last(Scatter given, const unsigned long long *last, const Unit *values, Unit *array) {
    const int64_t units = given.put * given.units;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < units;
         i += int64_t(gridDim.x) * blockDim.x) {
        const int64_t number = i / given.units, unit = i % given.units;
        const int64_t place = place_of(given.indices[number], given.count);
        if (last != nullptr && last[place] != (unsigned long long)(number + 1)) continue;
        array[place * given.units + unit] = values[number % given.value_count * given.units + unit];
    }
}

unsigned blocks_for(int64_t items) {
    constexpr int64_t MOST = 1 << 16;
    return unsigned(std::min(MOST, (items + THREADS - 1) / THREADS));
}

template <class Unit>
void put_units(const Scatter &given, const unsigned long long *last, const char *values, char *array,
               cudaStream_t queue) {
    put_last<Unit><<<blocks_for(given.put * given.units), THREADS, 0, queue>>>(
        given, last, reinterpret_cast<const Unit *>(values), reinterpret_cast<Unit *>(array));
    PK_CUDA(cudaGetLastError());
}

// Puts values where the array is at home; false where there is no room for what that takes.
bool put_there(const Put &given, Call &call, const std::vector<int> &devices) {
    const int64_t unit = unit_of(given.array, given.values, given.width), word = sizeof(int64_t);
    const plan::Span indices(given.indices, given.index_bytes(), word, false);
    const plan::Span values(given.values, given.value_bytes(), unit, false);
    const bool has_last = given.value_count > 1;
    const plan::Memory last = has_last ? plan::Memory(devices[0], given.count * word) : plan::Memory();
    if (has_last && last.get() == nullptr) return false;
    const bool are_there = plan::have_homes({indices}, devices);
    if (are_there) {
        plan::Homes looked({indices}, call, devices);
        const auto *const home = reinterpret_cast<const int64_t *>(looked.of(0).at);
        const Range range = range_there(home, given.put, devices[0], call);
        looked.settle();
        require_places(given.count, range);
    } else {
        plan::bring_down({indices}, call);
        require_places(given.count, range_of(given.indices, given.put, call));
    }
    // The array is read, too: most of it may stay as it is.
    plan::Homes homes({{given.array, given.array_bytes(), unit, false},
                       {given.array, given.array_bytes(), unit, true},
                       indices,
                       values},
                      call, devices);
    if (homes.of(1).at == nullptr) {  // whose elements are not aligned there
        homes.leave();
        return false;
    }
    Resident carried;
    const int64_t own_indices = homes.of(2).at ? -1 : carried.add(given.indices, given.index_bytes());
    const int64_t own_values = homes.of(3).at ? -1 : carried.add(given.values, given.value_bytes());
    if ((own_indices >= 0 || own_values >= 0) && !carried.upload(call, devices)) {
        homes.leave();
        return false;
    }
    const CurrentDevice current(devices[0]);
    const Stream stream = pk::stream();
    const Queue queue(stream);
    const char *const at = own_indices < 0 ? homes.of(2).at : carried.on(0) + own_indices;
    const Scatter scatter{reinterpret_cast<const int64_t *>(at), given.put, given.count, given.value_count,
                          given.width / unit};
    auto *const found = reinterpret_cast<unsigned long long *>(last.get());
    if (has_last) {
        PK_CUDA(cudaMemsetAsync(found, 0, size_t(given.count * word), queue.get()));
        find_last<<<blocks_for(given.put), THREADS, 0, queue.get()>>>(scatter, found);
        PK_CUDA(cudaGetLastError());
    }
    const char *const from = own_values < 0 ? homes.of(3).at : carried.on(0) + own_values;
    char *const array = homes.of(1).at;
    switch (unit) {
        case 1: put_units<uint8_t>(scatter, found, from, array, queue.get()); break;
        case 2: put_units<uint16_t>(scatter, found, from, array, queue.get()); break;
        case 4: put_units<uint32_t>(scatter, found, from, array, queue.get()); break;
        default: put_units<uint64_t>(scatter, found, from, array, queue.get());
    }
    PK_CUDA(cudaStreamSynchronize(queue.get()));
    const bool leaves = homes.of(1).leaves;
    homes.settle();
    if (leaves) plan::bring_down(devices[0], array, given.array, given.array_bytes(), call);
    call.advance(given.put);
    return true;
}

void launch_put(const Put &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.put == 0) return;
    const plan::Span array(given.array, given.array_bytes(), 1, true);
    if (plan::have_homes({array}, devices) && put_there(given, call, devices)) return;
    plan::bring_down(
        {{given.indices, given.index_bytes(), 1, false}, {given.values, given.value_bytes(), 1, false}},
        call);
    require_places(given.count, range_of(given.indices, given.put, call));
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(given.array);
    operand.type = PK_UINT8;
    operand.strides[0] = 1;
    const int64_t bytes = given.array_bytes();
    plan::Homes homes(Layout(&operand, 1, &bytes, 1, {true}), call);  // which brings it down
    put_on_host(given, call);
    homes.settle();
}

}  // namespace

}  // namespace pk::take

extern "C" int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices, int64_t put,
                          const uint8_t *values, int64_t value_count, const pk_options *options,
                          pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::take::Put(array, count, width, indices, put, values, value_count); },
        pk::take::launch_put);
}

extern "C" int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width,
                           const int64_t *indices, int64_t picked, int64_t flags, uint8_t *out,
                           const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::take::Request({reinterpret_cast<const char *>(in), outer, count, width}, indices,
                                     picked, flags, out);
        },
        pk::take::launch);
}
