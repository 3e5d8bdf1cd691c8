// The device memory of the library: a stream-ordered pool for each device.
//
// A freed block stays in the pool with the stream in which it was freed and an event of that stream, so that
// later work in that stream may use it at once, and other streams wait for the event. Sizes are rounded up to
// classes. The purpose of an allocation decides the budget that it counts against.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cuda.h"
#include "pycudakit.h"

namespace pk {

// The purpose of device memory.
enum class Account {
    slot,        // staging slots; PYCUDAKIT_DEVICE_MEMORY
    call,        // buffers for the duration of a call: they may take half of PYCUDAKIT_DEVICE_MEMORY together
    large_call,  // such a buffer that may take all of it. Its call must hold its slots already, since other
                 // calls may then have to wait for theirs.
    resident,    // resident buffers, and large temporary storage; PYCUDAKIT_PLAN_MEMORY
    temporary,   // temporary storage of at most MAX_TEMPORARY_BYTES; no budget
    program,     // memory that a program asks for by name; no budget
};

constexpr int64_t MAX_TEMPORARY_BYTES = 64 << 20;
// The alignment of device memory, in bytes: that of cudaMalloc.
constexpr int64_t DEVICE_ALIGNMENT = 256;

// The stream that uses newly allocated memory first, which is ordered after the memory's earlier use. Without
// one, the memory is idle, and any stream may use it.
using StreamOrder = std::optional<cudaStream_t>;

// The point in a stream after which a freed block may be reused.
class FreeMarker {
   public:
    // Record an event on a stream of the current device. If that fails, wait for the stream: the next call
    // reports the error.
    void record(cudaStream_t stream) noexcept;
    // Return true if all work before the marker has finished.
    bool is_ready();
    bool is_in(cudaStream_t stream) const { return is_pending_ && stream_ == stream; }
    // Make a stream of the current device wait for the marker; without a stream, the host waits.
    void wait(StreamOrder stream);

   private:
    Event event_;
    cudaStream_t stream_ = nullptr;
    bool is_pending_ = false;
};

class DevicePool;

// Device memory of a pool. Destroying it frees the memory in the stream of the thread's StreamScope; without
// a scope, all work on the memory must have finished.
class DeviceBuffer {
   public:
    DeviceBuffer() = default;
    // Allocate; d_memory() is null if the budget is exhausted. See DevicePool::allocate.
    DeviceBuffer(int device, int64_t bytes, Account account = Account::call,
                 StreamOrder stream = std::nullopt);
    ~DeviceBuffer() { free(); }
    DeviceBuffer(DeviceBuffer &&other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          account_(other.account_),
          bytes_(other.bytes_),
          block_(std::move(other.block_)) {}
    DeviceBuffer &operator=(DeviceBuffer &&other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(account_, other.account_);
        std::swap(bytes_, other.bytes_);
        block_.swap(other.block_);
        return *this;
    }

    char *d_memory() const {
        return block_.empty() ? nullptr : static_cast<char *>(block_.front().memory.get());
    }
    bool is_reserved() const { return pool_ != nullptr; }

    // Allocate reserved memory that is not allocated yet, or wait for the work that uses it.
    void obtain(StreamOrder stream = std::nullopt);
    // Free the memory as the destructor does, or in a stream of its device.
    void free() noexcept;
    void free(cudaStream_t stream) noexcept;
    // Give the memory up, never to be reused or freed: a hung kernel may still use it.
    void leak();

   private:
    friend class DevicePool;

    struct Block {
        DeviceMemory memory;
        int64_t bytes;
        FreeMarker free_marker;
    };
    using Blocks = std::list<Block>;

    void mark(int device, cudaStream_t stream) noexcept;
    void give_back() noexcept;

    DevicePool *pool_ = nullptr;
    Account account_ = Account::call;
    int64_t bytes_ = 0;  // that are booked
    Blocks block_;       // one block, in a node that the pool's lists take; or none, if it is only reserved
};

// The pool of one device.
class DevicePool {
   public:
    static DevicePool &of(int device);
    // Add the pools' sizes and budgets to the report.
    static void add_to(pk_memory &memory);
    // Free the unused memory of all pools.
    static void release_all();
    // Set the function that drops cached objects which hold memory; it is called when an allocation has no
    // room, and returns true if it has dropped any.
    static void on_shortage(bool (*release)());
    // Set the functions that reclaim the memory of an unused staging slot, and that are called when staging
    // memory has been freed.
    static void set_staging_callbacks(bool (*reclaim_slot)(int device), void (*freed)());
    // Return PYCUDAKIT_DEVICE_MEMORY.
    static int64_t staging_budget();

    explicit DevicePool(int device) : device_(device) {}
    DevicePool(const DevicePool &) = delete;
    DevicePool &operator=(const DevicePool &) = delete;

    // Allocate memory. If the budget has no room, unused memory is freed first; if that is not enough, the
    // buffer's d_memory() is null. Throws if the device is out of memory, and if the thread's current stream
    // is being captured in a CUDA graph.
    DeviceBuffer allocate(int64_t bytes, StreamOrder stream, Account account);
    // The same, but d_memory() is null, too, if the device is out of memory.
    DeviceBuffer allocate_if_possible(int64_t bytes, StreamOrder stream, Account account);

    // Book memory, which DeviceBuffer::obtain() allocates. This neither frees memory nor waits. The result is
    // not reserved if the budget has no room.
    DeviceBuffer reserve(int64_t bytes, StreamOrder stream, Account account);
    // Free an unused block of the account's budget. Return false if there is none.
    bool evict(Account account);
    // Free all unused memory. Return whether there was any.
    bool release();
    static bool release_caches();

    // Return the bytes that release() would free.
    int64_t unused_bytes();
    // Return the budget of PYCUDAKIT_PLAN_MEMORY on this device.
    int64_t plan_budget();
    // Return whether the account's budget has room for so many bytes, with the unused blocks as they are.
    bool has_room(int64_t bytes, Account account);

   private:
    friend class DeviceBuffer;
    using Block = DeviceBuffer::Block;
    using Blocks = DeviceBuffer::Blocks;
    using BySize = std::map<int64_t, Blocks>;

    // Accounts that share a limit share its unused blocks.
    struct Budget {
        int64_t limit = -1;              // bytes; -1: not determined yet
        int64_t max_unused = INT64_MAX;  // bytes that are kept
        int64_t bytes = 0;               // of all blocks, in use or not, and of reservations
        int64_t call_bytes = 0;          // of those in use for a call
        int64_t unused_bytes = 0;
        BySize unused{};  // of each size, the oldest in front
    };
    enum Name { staging, resident, temporary, program, COUNT };
    static Name name_of(Account account);

    // The functions below are called with the mutex held.
    Budget &budget_of(Account account);
    static bool may_fit(const Budget &budget, int64_t bytes, Account account);
    DeviceBuffer reserve(int64_t bytes, StreamOrder stream, Account account, bool may_wait);
    // Move an unused block to the buffer: one that needs no waiting, unless `may_wait`. Return whether there
    // is one.
    static bool reuse(Budget &budget, StreamOrder stream, bool may_wait, DeviceBuffer &buffer);
    static bool book(Budget &budget, DeviceBuffer &buffer);
    // Remove an unused block: the largest, preferably an idle one.
    static Blocks remove_one(Budget &budget, bool must_be_idle);
    static Blocks remove(Budget &budget, BySize::iterator size, Blocks::iterator block);

    // These may wait for the GPU, and are called without it.
    DeviceMemory allocate_or_release(int64_t bytes);
    void destroy(Blocks blocks, Name name) noexcept;
    void take_back(DeviceBuffer &buffer) noexcept;

    const int device_;
    std::mutex mutex_;  // guards the members below
    Budget budgets_[COUNT];
};

// Temporary storage of a call, until its stream reaches the point of its destruction; without a stream, until
// then. While the stream is being captured in a CUDA graph, the storage belongs to the graph. Throws if there
// is none.
class TemporaryStorage {
   public:
    TemporaryStorage(int device, StreamOrder stream, int64_t bytes);
    ~TemporaryStorage();
    TemporaryStorage(const TemporaryStorage &) = delete;
    TemporaryStorage &operator=(const TemporaryStorage &) = delete;

    char *get() const { return d_captured_ != nullptr ? d_captured_ : buffer_.d_memory(); }

   private:
    const StreamOrder stream_;
    char *d_captured_ = nullptr;
    DeviceBuffer buffer_;
};

// Throw the Failure of a call for which an account's budget has too little left.
[[noreturn]] void fail_device_budget(const char *wanted, Account account = Account::call);

}  // namespace pk
