// Checks the device pool, the staging slots and staged copies without a GPU, against a faked CUDA runtime.
// Prints the first violation and exits with 1, else prints "ok".
#include "fake_cuda_runtime.h"

#include "cuda/pipeline/staged_copy.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/execution_context.h"

namespace {

using pk::Account;
using pk::DeviceBuffer;
using pk::DevicePool;
using pk::StreamOrder;

constexpr int64_t MIB = 1 << 20;

cudaStream_t new_stream() {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, 0);
    return stream;
}

template <class Body>
pk_status status_of(Body body) {
    try {
        body();
    } catch (const pk::Failure &failure) {
        return failure.status();
    }
    return PK_OK;
}

void release() {
    pk::release_slots();
    DevicePool::release_all();
    EXPECT(allocated == 0);
    const pk_memory memory = pk::streaming_memory();
    EXPECT(memory.device_bytes == 0 && memory.plan_bytes == 0 && memory.pinned_bytes == 0);
}

// Blocks go from stream to stream, in the same thread and in others, and are never used too early.
void check_order() {
    std::vector<cudaStream_t> all;
    for (int i = 0; i < 4; ++i) all.push_back(new_stream());
    const auto work = [&](unsigned seed) {
        std::mt19937 random(seed);
        struct Used {
            DeviceBuffer buffer;
            cudaStream_t stream;
        };
        std::vector<Used> used;
        for (int step = 0; step < 3000; ++step) {
            if (used.size() > random() % 6) {
                const size_t index = random() % used.size();
                Used one = std::move(used[index]);
                used.erase(used.begin() + std::ptrdiff_t(index));
                use(one.buffer.d_memory(), one.stream);
                switch (random() % 3) {
                    case 0: one.buffer.free(one.stream); break;
                    case 1: {
                        const pk::StreamScope scope(0, one.stream);
                        one.buffer = DeviceBuffer();
                        break;
                    }
                    default: cudaStreamSynchronize(one.stream);  // idle
                }
                continue;
            }
            const int64_t bytes = (1 + random() % 4) * MIB - random() % 1000;
            const Account account = Account(1 + random() % 5);
            const cudaStream_t stream = all[random() % all.size()];
            const bool is_ordered = random() % 3 != 0;
            DeviceBuffer buffer =
                DevicePool::of(0).allocate(bytes, is_ordered ? StreamOrder(stream) : std::nullopt, account);
            if (buffer.d_memory() == nullptr) continue;
            const cudaStream_t user = is_ordered ? stream : all[random() % all.size()];
            use(buffer.d_memory(), user);
            used.push_back({std::move(buffer), user});
        }
        for (Used &one : used) one.buffer.free(one.stream);
    };
    work(7);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (std::thread &thread : threads) thread.join();
    release();
}

void check_budgets() {
    // PYCUDAKIT_DEVICE_MEMORY is 8 MiB here, and calls take half of it together.
    DeviceBuffer half(0, 4 * MIB);
    EXPECT(half.d_memory() != nullptr);
    EXPECT(DeviceBuffer(0, 1).d_memory() == nullptr);
    DeviceBuffer rest(0, 4 * MIB, Account::large_call);
    EXPECT(rest.d_memory() != nullptr);
    EXPECT(DeviceBuffer(0, 1, Account::large_call).d_memory() == nullptr);
    EXPECT(DeviceBuffer(1, 4 * MIB).d_memory() != nullptr);  // each device has its own budget
    rest = DeviceBuffer();
    half = DeviceBuffer();
    EXPECT(pk::streaming_memory().device_bytes <= 2 * 8 * MIB);
    // Unused blocks make room for another size.
    DeviceBuffer other(0, 7 * MIB + 1, Account::large_call);
    EXPECT(other.d_memory() != nullptr);
    other = DeviceBuffer();
    // A block serves sizes of its class again.
    const int64_t before = device_mallocs;
    EXPECT(DeviceBuffer(0, 7 * MIB + 1, Account::large_call).d_memory() != nullptr);
    EXPECT(device_mallocs == before);
    // PYCUDAKIT_PLAN_MEMORY is 4 MiB here.
    EXPECT(DeviceBuffer(0, 4 * MIB, Account::resident).d_memory() != nullptr);
    EXPECT(DeviceBuffer(0, 4 * MIB + 1, Account::resident).d_memory() == nullptr);
    EXPECT(DeviceBuffer(0, 100 * MIB, Account::program).d_memory() != nullptr);
    EXPECT(DevicePool::of(0).unused_bytes() > 100 * MIB);
    EXPECT(DeviceBuffer(0, 200 * MIB, Account::program).d_memory() != nullptr);
    EXPECT(DevicePool::of(0).unused_bytes() < 200 * MIB);  // without a budget, little is kept
    release();
}

// Asynchronous work never waits for another stream's.
void check_temporary() {
    const cudaStream_t first = new_stream(), second = new_stream();
    const int64_t before = host_waits;
    char *d_reused = nullptr;
    for (int i = 0; i < 100; ++i) {
        for (const cudaStream_t stream : {first, second}) {
            const pk::StreamScope scope(0, stream);
            for (const int64_t bytes : {64 * MIB, 56 * MIB, 48 * MIB, 40 * MIB}) {
                const pk::TemporaryStorage storage(0, stream, bytes);
                use(storage.get(), stream);
                if (i == 0 && stream == first) d_reused = storage.get();
            }
        }
    }
    EXPECT(host_waits == before);
    EXPECT(DevicePool::of(0).unused_bytes() > 256 * MIB);
    cudaStreamSynchronize(first);
    cudaStreamSynchronize(second);
    DeviceBuffer(0, 1, Account::temporary);  // a call that may wait frees the surplus
    EXPECT(DevicePool::of(0).unused_bytes() <= 256 * MIB);
    EXPECT(most_allocated < size_t(900 * MIB));
    EXPECT(d_reused != nullptr);
    EXPECT(status_of([&] { pk::TemporaryStorage(0, first, 65 * MIB); }) ==
           PK_OUT_OF_MEMORY);  // in a plan's budget
    for (const cudaStream_t captured : {first, cudaStreamPerThread}) {
        const int64_t before_capture = captured_mallocs;
        capturing = captured;
        EXPECT(status_of([&] { use(pk::TemporaryStorage(0, captured, MIB).get(), captured); }) == PK_OK);
        EXPECT(captured_mallocs == before_capture + 1);
        const pk::StreamScope scope(0, captured);
        EXPECT(status_of([&] { DeviceBuffer(0, MIB); }) == PK_UNSUPPORTED);
        EXPECT(status_of([&] { pk::TemporaryStorage(0, captured, 65 * MIB); }) == PK_UNSUPPORTED);
        capturing = nullptr;
    }
    release();
}

// If the device is out of memory, unused memory of all budgets and unused slots are freed before a call
// fails.
void check_device_is_full() {
    pk_report report;
    pk::Call call(nullptr, &report);
    {
        const pk::Lease lease({MIB, MIB}, {0, 0}, 0, 3, call);
        EXPECT(lease.slots().size() == 3);
    }
    DeviceBuffer(0, 2 * MIB, Account::resident);
    capacity = size_t(6 * MIB);
    DeviceBuffer program(0, 5 * MIB, Account::program);
    EXPECT(program.d_memory() != nullptr && allocated == size_t(5 * MIB));
    EXPECT(status_of([] { DeviceBuffer(0, 2 * MIB); }) == PK_OUT_OF_MEMORY);
    EXPECT(DevicePool::of(0).allocate_if_possible(2 * MIB, std::nullopt, Account::resident).d_memory() ==
           nullptr);
    {
        const pk::Lease smaller({MIB, 2 * MIB}, {0, 0}, 0, 3, call);  // one slot, of less than it asks for
        EXPECT(smaller.slots().size() == 1 && smaller.slots()[0]->device_bytes == MIB);
        EXPECT(status_of([&] { pk::Lease({MIB, MIB}, {0, 0}, 0, 1, call); }) == PK_OUT_OF_MEMORY);
    }
    program = DeviceBuffer();
    capacity = size_t(1) << 40;
    release();
}

// Slots and buffers share a budget, wait for each other, and none is lost.
void check_slots() {
    const auto work = [](unsigned seed) {
        std::mt19937 random(seed);
        pk_report report;
        pk::Call call(nullptr, &report);
        for (int step = 0; step < 200; ++step) {
            const int64_t bytes = (1 + random() % 2) * MIB;
            const pk::Lease lease({MIB, bytes}, {0, 0}, 0, 1 + random() % 3, call);
            EXPECT(!lease.slots().empty());
            const DeviceBuffer buffer(0, (1 + random() % 3) * MIB, Account::call);
            for (const auto &slot : lease.slots()) {
                use(slot->d_memory(), slot->stream.get());
                slot->drain();
            }
            const pk_memory memory = pk::streaming_memory();
            EXPECT(memory.device_bytes <= 8 * MIB && memory.pinned_bytes <= memory.pinned_budget);
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (std::thread &thread : threads) thread.join();
    release();
}

// Arrays of all sizes, pinned or not, and moved elements go up and come down again, through the library's
// slots and through a call's own.
void check_copies() {
    std::mt19937 random(3);
    pk_report report{};
    pk::Call call(nullptr, &report);
    call.begin(int64_t(1) << 40);
    const std::vector<int64_t> sizes{1, 255, 4096, 300 << 10, 5 * MIB + 24, 40 * MIB};
    int64_t all = 0;
    for (int64_t size : sizes) all += size + 4096;
    std::vector<char> from(size_t(all), 0), to(size_t(all), 0);
    for (char &each : from) each = char(random());
    for (const bool has_own_slots : {false, true}) {
        for (const bool has_pinned : {false, true}) {
            pinned_begin = has_pinned ? from.data() : nullptr;
            pinned_end = has_pinned ? from.data() + all : nullptr;
            const int64_t before = pinned_copies, bytes_before = report.bytes_up;
            std::fill(to.begin(), to.end(), char(0));
            const DeviceBuffer buffer(0, all, Account::program);
            std::memset(buffer.d_memory(), 0, size_t(all));
            for (const auto direction : {pk::StagedCopy::up, pk::StagedCopy::down}) {
                const bool up = direction == pk::StagedCopy::up;
                pk::StagedCopy copy(call, 0, direction, 1);
                char *const host = up ? from.data() : to.data();
                int64_t at = 0;
                for (int64_t size : sizes) {
                    copy.add(host + at, buffer.d_memory() + at, size);
                    at += size;
                    copy.add(buffer.d_memory() + at, 4096, [=](char *staged) {
                        std::memcpy(up ? staged : host + at, up ? host + at : staged, 4096);
                    });
                    at += 4096;
                }
                if (has_own_slots) {
                    copy.run(pk::Lease({MIB, 0}, {0, 0}, 0, 3, call));
                } else {
                    copy.run();
                }
            }
            EXPECT(from == to);
            EXPECT(report.bytes_up - bytes_before == all);
            EXPECT((pinned_copies > before) == has_pinned);
        }
    }
    pinned_begin = pinned_end = nullptr;
    release();
}

}  // namespace

int main() {
    setenv("PYCUDAKIT_DEVICE_MEMORY", "8M", 1);
    setenv("PYCUDAKIT_PINNED_MEMORY", "4M", 1);
    setenv("PYCUDAKIT_PLAN_MEMORY", "4M", 1);
    check_budgets();
    check_order();
    check_temporary();
    check_device_is_full();
    check_slots();
    check_copies();
    std::printf("ok\n");
}
