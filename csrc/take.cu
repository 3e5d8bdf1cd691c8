// pk_take and pk_put on the CUDA engine. Take uploads the array and the indices once, gathers, and downloads
// the results chunk by chunk. Put scatters on the device if the array is resident there, else on the host.
#include <algorithm>

#include "common/take.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"

namespace pk::take {

namespace {

constexpr int THREADS = 256;

// The gather's parameters. An element is copied as `units` words of the width that a thread copies at once.
struct GatherParams {
    Source in;
    const int64_t *indices;
    int64_t picked, units;
    bool each;  // each outer array has indices of its own
};

// Gathers one chunk of the results, one word a thread.
template <class Unit>
__global__ void take_chunk(GatherParams args, Unit *out, int64_t start, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64_t item = (start + i) / args.units, unit = (start + i) % args.units;
    const int64_t array = item / args.picked;
    const int64_t index = args.indices[args.each ? item : item % args.picked];
    const int64_t from = array * args.in.count + place_of(index, args.in.count);
    out[i] = reinterpret_cast<const Unit *>(args.in.elements)[from * args.units + unit];
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

// Return the range of device-resident indices.
Range range_on_device(const int64_t *indices, int64_t count, int device, Call &call) {
    constexpr int64_t MAX_BLOCKS = 1024;
    const CurrentDevice current(device);
    Range range;
    const DeviceBuffer buffer(device, sizeof(range));
    if (buffer.d_memory() == nullptr) fail_device_budget("checking the indices");
    StreamScope::synchronize();
    const Stream own_stream = make_stream();
    const SyncOnExit stream(own_stream);
    // Bytes of 0x7f and 0x80 make initial values above and below any valid index.
    PK_CUDA(cudaMemsetAsync(buffer.d_memory(), 0x7f, sizeof(range.least), stream.get()));
    PK_CUDA(
        cudaMemsetAsync(buffer.d_memory() + sizeof(range.least), 0x80, sizeof(range.greatest), stream.get()));
    const unsigned blocks = grid_for(count, THREADS, MAX_BLOCKS);
    find_range<<<blocks, THREADS, 0, stream.get()>>>(indices, count,
                                                     reinterpret_cast<long long *>(buffer.d_memory()));
    PK_CUDA(cudaGetLastError());
    PK_CUDA(cudaMemcpyAsync(&range, buffer.d_memory(), sizeof(range), cudaMemcpyDeviceToHost, stream.get()));
    PK_CUDA(cudaStreamSynchronize(stream.get()));
    call.report.bytes_down += int64_t(sizeof(range));
    return range;
}

// Return the widest word, up to 8 bytes, that both addresses and the element's width are multiples of.
int64_t unit_of(const void *one, const void *other, int64_t width) {
    const auto places =
        reinterpret_cast<uintptr_t>(one) | reinterpret_cast<uintptr_t>(other) | uintptr_t(width);
    return int64_t(places & 7 ? (places & 3 ? (places & 1 ? 1 : 2) : 4) : 8);
}

// Return the result as a dense operand of words.
pk_operand operand_of(const Request &args, int64_t unit) {
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(args.out);
    operand.type = unit == 8 ? PK_UINT64 : unit == 4 ? PK_UINT32 : unit == 2 ? PK_UINT16 : PK_UINT8;
    operand.strides[0] = unit;
    return operand;
}

// The gather of all results as a pipeline algorithm.
class TakeAlgorithm : public DeviceAlgorithm {
   public:
    TakeAlgorithm(const Layout &layout, const Request &args, const plan::Operands &operands, Call &call,
                  const ExecutionContext &context)
        : DeviceAlgorithm(layout, {}, operands.stores(0), 0, 0), operands_(operands) {
        can_run_async = true;
        const int64_t unit = layout.views[0].item;
        gather_ = {args.in, args.indices, args.picked, args.in.width / unit, args.each};
        if (operands.of(1).d_data == nullptr) in_ = broadcasts_.add(args.in.elements, args.in_bytes());
        if (operands.of(2).d_data == nullptr) {
            indices_ = broadcasts_.add(args.indices, args.index_count() * int64_t(sizeof(int64_t)));
        }
        if (!broadcasts_.upload(call, context.devices)) fail_device_budget("the array to take from");
    }

    void enqueue(const Chunk &chunk) override {
        GatherParams args = gather_;
        args.in.elements = in_ < 0 ? operands_.of(1).d_data : broadcasts_.d_data(chunk.device_index) + in_;
        args.indices = reinterpret_cast<const int64_t *>(
            indices_ < 0 ? operands_.of(2).d_data : broadcasts_.d_data(chunk.device_index) + indices_);
        switch (layout.views[0].item) {
            case 1: return launch<uint8_t>(args, chunk);
            case 2: return launch<uint16_t>(args, chunk);
            case 4: return launch<uint32_t>(args, chunk);
            default: return launch<uint64_t>(args, chunk);
        }
    }
    void collect(const void *) override {}

   private:
    template <class Unit>
    void launch(const GatherParams &args, const Chunk &chunk) const {
        auto *const out = reinterpret_cast<Unit *>(operands_.d_data(*this, chunk, 0));
        const auto blocks = grid_for(chunk.count, THREADS);
        take_chunk<Unit><<<blocks, THREADS, 0, chunk.stream>>>(args, out, chunk.start, chunk.count);
        PK_CUDA(cudaGetLastError());
    }

    const plan::Operands &operands_;
    GatherParams gather_{};
    BroadcastBuffers broadcasts_;
    int64_t in_ = -1, indices_ = -1;  // offsets in broadcasts_; -1: device-resident
};

void launch(const Request &args, Call &call) {
    if (args.elements() == 0) return;
    const ExecutionContext context(call);
    const std::vector<int> &devices = context.devices;
    const int64_t unit = unit_of(args.in.elements, args.out, args.in.width), units = args.out_bytes() / unit;
    const pk_operand operand = operand_of(args, unit);
    const Layout layout(&operand, 1, &units, 1, {true});
    const int64_t word = sizeof(int64_t);
    const plan::HostRange indices(args.indices, args.index_count() * word, word, false);
    // Check the indices before anything is written: on the device if they are resident there.
    const bool are_indices_resident = plan::all_resident({indices}, devices);
    if (!are_indices_resident) {
        plan::sync_to_host({indices}, call);
        if (!args.indices_in_bounds)
            require_in_bounds(args.in.count, index_range(args.indices, args.index_count(), call));
    }
    plan::Operands operands(
        {{args.out, args.out_bytes(), unit, true}, {args.in.elements, args.in_bytes(), unit, false}, indices},
        call, devices, true);
    if (are_indices_resident && !args.indices_in_bounds) {
        const auto *const d_indices = reinterpret_cast<const int64_t *>(operands.of(2).d_data);
        require_in_bounds(args.in.count, range_on_device(d_indices, args.index_count(), devices[0], call));
    }
    TakeAlgorithm algorithm(layout, args, operands, call, context);
    execute(algorithm, operands, call, context);
    operands.commit();
}

// ---- Put ------------------------------------------------------------------------------------------------

// The scatter's parameters. An element is copied as `units` words.
struct ScatterParams {
    const int64_t *indices;
    int64_t put, count, value_count, units;
};

// Finds, for each element, the number of the last value that is put to it, from 1 on. As in NumPy, the
// last value counts.
__global__ void find_last(ScatterParams args, unsigned long long *last) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < args.put;
         i += int64_t(gridDim.x) * blockDim.x)
        atomicMax(last + place_of(args.indices[i], args.count), (unsigned long long)(i + 1));
}

// Scatters the values, of each element only the last one. Without `last` all values are the same.
template <class Unit>
__global__ void put_last(ScatterParams args, const unsigned long long *last, const Unit *values,
                         Unit *array) {
    const int64_t units = args.put * args.units;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < units;
         i += int64_t(gridDim.x) * blockDim.x) {
        const int64_t number = i / args.units, unit = i % args.units;
        const int64_t place = place_of(args.indices[number], args.count);
        if (last != nullptr && last[place] != (unsigned long long)(number + 1)) continue;
        array[place * args.units + unit] = values[number % args.value_count * args.units + unit];
    }
}

constexpr int64_t MAX_PUT_BLOCKS = 1 << 16;

template <class Unit>
void put_units(const ScatterParams &args, const unsigned long long *last, const char *values, char *array,
               cudaStream_t stream) {
    put_last<Unit><<<grid_for(args.put * args.units, THREADS, MAX_PUT_BLOCKS), THREADS, 0, stream>>>(
        args, last, reinterpret_cast<const Unit *>(values), reinterpret_cast<Unit *>(array));
    PK_CUDA(cudaGetLastError());
}

// Put values into a device-resident array. Return false if that is not possible, for example for lack of
// memory.
bool put_on_device(const PutRequest &args, Call &call, const std::vector<int> &devices) {
    const int64_t unit = unit_of(args.array, args.values, args.width), word = sizeof(int64_t);
    const plan::HostRange indices(args.indices, args.index_bytes(), word, false);
    const plan::HostRange values(args.values, args.value_bytes(), unit, false);
    const bool has_last = args.value_count > 1;
    DeviceBuffer last;
    if (has_last) {
        last =
            DevicePool::of(devices[0]).allocate_if_possible(args.count * word, std::nullopt, Account::plan);
        if (last.d_memory() == nullptr) return false;
    }
    const bool are_indices_resident = plan::all_resident({indices}, devices);
    if (are_indices_resident) {
        plan::Operands index_operands({indices}, call, devices);
        const auto *const d_indices = reinterpret_cast<const int64_t *>(index_operands.of(0).d_data);
        const Range range = range_on_device(d_indices, args.put, devices[0], call);
        index_operands.commit();
        require_in_bounds(args.count, range);
    } else {
        plan::sync_to_host({indices}, call);
        require_in_bounds(args.count, index_range(args.indices, args.put, call));
    }
    // The array is read, too: most of it may stay as it is.
    plan::Operands operands({{args.array, args.array_bytes(), unit, false},
                             {args.array, args.array_bytes(), unit, true},
                             indices,
                             values},
                            call, devices);
    if (operands.of(1).d_data == nullptr) return false;  // the words are not aligned on the device
    BroadcastBuffers streamed;
    const int64_t indices_at = operands.of(2).d_data ? -1 : streamed.add(args.indices, args.index_bytes());
    const int64_t values_at = operands.of(3).d_data ? -1 : streamed.add(args.values, args.value_bytes());
    if ((indices_at >= 0 || values_at >= 0) && !streamed.upload(call, devices)) return false;
    const CurrentDevice current(devices[0]);
    const Stream own_stream = make_stream();
    const SyncOnExit stream(own_stream);
    const char *const at = indices_at < 0 ? operands.of(2).d_data : streamed.d_data(0) + indices_at;
    const ScatterParams scatter{reinterpret_cast<const int64_t *>(at), args.put, args.count, args.value_count,
                                args.width / unit};
    auto *const d_last = reinterpret_cast<unsigned long long *>(last.d_memory());
    if (has_last) {
        PK_CUDA(cudaMemsetAsync(d_last, 0, size_t(args.count * word), stream.get()));
        find_last<<<grid_for(args.put, THREADS, MAX_PUT_BLOCKS), THREADS, 0, stream.get()>>>(scatter, d_last);
        PK_CUDA(cudaGetLastError());
    }
    const char *const from = values_at < 0 ? operands.of(3).d_data : streamed.d_data(0) + values_at;
    char *const array = operands.of(1).d_data;
    call.count_launch();
    switch (unit) {
        case 1: put_units<uint8_t>(scatter, d_last, from, array, stream.get()); break;
        case 2: put_units<uint16_t>(scatter, d_last, from, array, stream.get()); break;
        case 4: put_units<uint32_t>(scatter, d_last, from, array, stream.get()); break;
        default: put_units<uint64_t>(scatter, d_last, from, array, stream.get());
    }
    PK_CUDA(cudaStreamSynchronize(stream.get()));
    const bool copy_back = operands.of(1).copy_back;
    operands.commit();
    if (copy_back) plan::download(devices[0], array, args.array, args.array_bytes(), call);
    call.advance(args.put);
    return true;
}

void launch_put(const PutRequest &args, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (args.put == 0) return;
    const plan::HostRange array(args.array, args.array_bytes(), 1, true);
    if (plan::all_resident({array}, devices) && put_on_device(args, call, devices)) return;
    plan::sync_to_host(
        {{args.indices, args.index_bytes(), 1, false}, {args.values, args.value_bytes(), 1, false}}, call);
    require_in_bounds(args.count, index_range(args.indices, args.put, call));
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(args.array);
    operand.type = PK_UINT8;
    operand.strides[0] = 1;
    const int64_t bytes = args.array_bytes();
    plan::Operands operands(Layout(&operand, 1, &bytes, 1, {true}), call);  // downloads it if it is resident
    put_on_host(args, call);
    operands.commit();
}

}  // namespace

}  // namespace pk::take

extern "C" int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices, int64_t put,
                          const uint8_t *values, int64_t value_count, const pk_options *options,
                          pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::take::PutRequest(array, count, width, indices, put, values, value_count); },
        pk::take::launch_put);
}

extern "C" int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width,
                           const int64_t *indices, int64_t picked, int64_t flags, uint8_t *out,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::take::Request({reinterpret_cast<const char *>(in), outer, count, width}, indices,
                                     picked, flags, out);
        },
        pk::take::launch);
}
