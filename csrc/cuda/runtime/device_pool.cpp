// The pools of device memory: budgets, size classes, and reuse in stream order.
#include "device_pool.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "common/call/environment.h"
#include "common/call/status.h"
#include "common/rounding.h"
#include "execution_context.h"

namespace pk {

void FreeMarker::record(cudaStream_t stream) noexcept {
    try {
        if (event_.get() == nullptr) event_ = make_event();
        PK_CUDA(cudaEventRecord(event_.get(), stream));
        stream_ = stream;
        is_pending_ = true;
    } catch (const Failure &) {
        (void)cudaStreamSynchronize(stream);
        is_pending_ = false;
    }
}

bool FreeMarker::is_ready() {
    // Any other status is an error; the call that waits for the event reports it.
    if (is_pending_ && cudaEventQuery(event_.get()) == cudaSuccess) is_pending_ = false;
    return !is_pending_;
}

void FreeMarker::wait(StreamOrder stream) {
    if (!is_pending_) return;
    if (stream) {
        PK_CUDA(cudaStreamWaitEvent(*stream, event_.get()));
    } else {
        PK_CUDA(cudaEventSynchronize(event_.get()));
    }
    is_pending_ = false;
}

// ---- DeviceBuffer --------------------------------------------------------------------------------

DeviceBuffer::DeviceBuffer(int device, int64_t bytes, Account account, StreamOrder stream)
    : DeviceBuffer(DevicePool::of(device).allocate(bytes, stream, account)) {}

void DeviceBuffer::obtain(StreamOrder stream) {
    if (pool_ == nullptr) return;
    const CurrentDevice current(pool_->device_);
    if (block_.empty()) {
        DeviceMemory memory = pool_->allocate_or_release(bytes_);
        block_.push_back({std::move(memory), bytes_, {}});
    } else {
        block_.front().free_marker.wait(stream);
    }
}

void DeviceBuffer::free() noexcept {
    const StreamScope *const stream_scope = StreamScope::current();
    if (stream_scope != nullptr) mark(stream_scope->device, stream_scope->stream);
    give_back();
}

void DeviceBuffer::free(cudaStream_t stream) noexcept {
    if (pool_ != nullptr) mark(pool_->device_, stream);
    give_back();
}

void DeviceBuffer::mark(int device, cudaStream_t stream) noexcept {
    if (block_.empty()) return;
    try {
        const CurrentDevice current(device);
        if (is_capturing(stream)) return leak();  // the graph has its address
        if (device == pool_->device_) return block_.front().free_marker.record(stream);
        PK_CUDA(cudaStreamSynchronize(stream));
    } catch (const Failure &) {
        (void)cudaStreamSynchronize(stream);  // the next call on the device reports the error
    }
}

void DeviceBuffer::give_back() noexcept {
    if (pool_ == nullptr) return;
    pool_->take_back(*this);
    pool_ = nullptr;
}

void DeviceBuffer::leak() {
    if (pool_ == nullptr) return;
    (void)new Blocks(std::move(block_));
    block_.clear();
    pool_ = nullptr;
}

// ---- All pools -----------------------------------------------------------------------------------

namespace {

// The most unused bytes that a device keeps of memory without a budget.
constexpr int64_t MAX_UNUSED = 256 << 20;
// The most blocks of a size whose events are queried.
constexpr int MAX_QUERIES = 16;

// Never destroyed: at the process's exit the driver may be gone before it.
struct Pools {
    std::mutex mutex;
    std::map<int, DevicePool> of_devices;
};
Pools &pools() {
    static auto *const pools = new Pools;
    return *pools;
}

std::atomic<bool (*)(int)> reclaim_slot{nullptr};
std::atomic<void (*)()> on_freed{nullptr};

bool reclaim_slot_of(int device) {
    bool (*const reclaim)(int) = reclaim_slot;
    return reclaim != nullptr && reclaim(device);
}

// Wake the calls that wait for staging memory.
void notify_freed() {
    void (*const notify)() = on_freed;
    if (notify != nullptr) notify();
}

// Return PYCUDAKIT_PLAN_MEMORY, or -1 if it is not set.
int64_t requested_plan_budget() {
    static const int64_t bytes = integer_from_environment("PYCUDAKIT_PLAN_MEMORY", "bytes", -1, 0);
    return bytes;
}

// Return the limit of resident memory on a device: by default, half of the free memory.
int64_t determine_resident_budget(int device) {
    if (requested_plan_budget() >= 0) return requested_plan_budget();
    const CurrentDevice current(device);
    size_t free = 0, total = 0;
    PK_CUDA(cudaMemGetInfo(&free, &total));
    return int64_t(free / 2);
}

bool is_for_call(Account account) { return account == Account::call || account == Account::large_call; }

}  // namespace

int64_t DevicePool::staging_budget() {
    constexpr int64_t DEFAULT = 512 << 20, MIN = 2 << 20;
    static const int64_t bytes = integer_from_environment("PYCUDAKIT_DEVICE_MEMORY", "bytes", DEFAULT, MIN);
    return bytes;
}

DevicePool &DevicePool::of(int device) {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    return pools().of_devices.try_emplace(device, device).first->second;
}

void DevicePool::add_to(pk_memory &memory) {
    memory.device_budget = staging_budget();
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (auto &[device, pool] : pools().of_devices) {
        const std::lock_guard<std::mutex> pool_lock(pool.mutex_);
        memory.device_bytes += pool.budgets_[staging].bytes;
        memory.plan_bytes += pool.budgets_[resident].bytes;
        if (device == 0) memory.plan_budget = std::max<int64_t>(0, pool.budgets_[resident].limit);
    }
    if (requested_plan_budget() >= 0) memory.plan_budget = requested_plan_budget();
}

void DevicePool::release_all() {
    std::vector<DevicePool *> all;
    {
        const std::lock_guard<std::mutex> lock(pools().mutex);
        for (auto &[device, pool] : pools().of_devices) all.push_back(&pool);
    }
    for (DevicePool *pool : all) pool->release();
}

void DevicePool::set_staging_callbacks(bool (*reclaim)(int device), void (*freed)()) {
    reclaim_slot = reclaim;
    on_freed = freed;
}

// ---- One pool ------------------------------------------------------------------------------------

DevicePool::Name DevicePool::name_of(Account account) {
    switch (account) {
        case Account::resident: return resident;
        case Account::temporary: return temporary;
        case Account::program: return program;
        default: return staging;
    }
}

DevicePool::Budget &DevicePool::budget_of(Account account) {
    const Name name = name_of(account);
    Budget &budget = budgets_[name];
    if (budget.limit >= 0) return budget;
    if (name == temporary || name == program) budget.max_unused = MAX_UNUSED;
    budget.limit = name == staging    ? staging_budget()
                   : name == resident ? determine_resident_budget(device_)
                                      : INT64_MAX;
    return budget;
}

bool DevicePool::may_fit(const Budget &budget, int64_t bytes, Account account) {
    const int64_t most = account == Account::call ? budget.limit / 2 - budget.call_bytes : budget.limit;
    return bytes <= most;
}

DeviceBuffer DevicePool::allocate(int64_t bytes, StreamOrder stream, Account account) {
    require_cuda();
    StreamScope::refuse_capture();
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            if (!may_fit(budget_of(account), bytes, account)) return {};
            DeviceBuffer buffer = reserve(bytes, stream, account, true);
            lock.unlock();
            buffer.obtain(stream);
            if (buffer.is_reserved()) return buffer;
        }
        if (evict(account) || release_caches()) continue;
        if (name_of(account) != staging || !reclaim_slot_of(device_)) return {};
    }
}

DeviceBuffer DevicePool::allocate_if_possible(int64_t bytes, StreamOrder stream, Account account) {
    try {
        return allocate(bytes, stream, account);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
    }
    return {};
}

DeviceBuffer DevicePool::reserve(int64_t bytes, StreamOrder stream, Account account) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!may_fit(budget_of(account), bytes, account)) return {};
    return reserve(bytes, stream, account, false);
}

DeviceBuffer DevicePool::reserve(int64_t bytes, StreamOrder stream, Account account, bool may_wait) {
    Budget &budget = budget_of(account);
    DeviceBuffer buffer;
    buffer.account_ = account;
    buffer.bytes_ = bytes;
    if (reuse(budget, stream, false, buffer) || book(budget, buffer) ||
        (may_wait && reuse(budget, stream, true, buffer))) {
        buffer.pool_ = this;
        if (is_for_call(account)) budget.call_bytes += buffer.bytes_;
    }
    return buffer;
}

bool DevicePool::reuse(Budget &budget, StreamOrder stream, bool may_wait, DeviceBuffer &buffer) {
    const int64_t largest = size_class(buffer.bytes_);
    auto size = budget.unused.lower_bound(buffer.bytes_);
    for (; size != budget.unused.end() && size->first <= largest; ++size) {
        int queries = 0;
        for (auto block = size->second.begin(); block != size->second.end(); ++block) {
            const bool is_ordered = may_wait || (stream && block->free_marker.is_in(*stream));
            if (!is_ordered && (++queries > MAX_QUERIES || !block->free_marker.is_ready())) continue;
            buffer.bytes_ = size->first;
            buffer.block_ = remove(budget, size, block);
            return true;
        }
    }
    return false;
}

bool DevicePool::book(Budget &budget, DeviceBuffer &buffer) {
    const int64_t left = budget.limit - budget.bytes, size = size_class(buffer.bytes_);
    if (size <= left) buffer.bytes_ = size;  // else perhaps these bytes alone
    if (buffer.bytes_ > left) return false;
    budget.bytes += buffer.bytes_;
    return true;
}

DevicePool::Blocks DevicePool::remove_one(Budget &budget, bool must_be_idle) {
    for (auto size = budget.unused.end(); size != budget.unused.begin();) {
        --size;
        if (size->second.front().free_marker.is_ready()) return remove(budget, size, size->second.begin());
    }
    if (must_be_idle || budget.unused.empty()) return {};
    const auto size = std::prev(budget.unused.end());
    return remove(budget, size, size->second.begin());
}

DevicePool::Blocks DevicePool::remove(Budget &budget, BySize::iterator size, Blocks::iterator block) {
    Blocks removed;
    removed.splice(removed.end(), size->second, block);
    budget.unused_bytes -= size->first;
    if (size->second.empty()) budget.unused.erase(size);
    return removed;
}

bool DevicePool::evict(Account account) {
    Blocks blocks;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        blocks = remove_one(budget_of(account), false);
    }
    if (blocks.empty()) return false;
    destroy(std::move(blocks), name_of(account));
    return true;
}

namespace {

std::atomic<bool (*)()> release_cached_memory{nullptr};

}  // namespace

void DevicePool::on_shortage(bool (*release)()) { release_cached_memory = release; }

bool DevicePool::release_caches() {
    bool (*const release)() = release_cached_memory;
    return release != nullptr && release();
}

bool DevicePool::release() {
    bool has_released = false;
    for (const Name name : {staging, resident, temporary, program}) {
        Blocks blocks;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            Budget &budget = budgets_[name];
            for (auto &size : budget.unused) blocks.splice(blocks.end(), size.second);
            budget.unused.clear();
            budget.unused_bytes = 0;
        }
        has_released |= !blocks.empty();
        destroy(std::move(blocks), name);
    }
    return has_released;
}

// The bytes stay booked until they are free. An error here follows one that was reported.
void DevicePool::destroy(Blocks blocks, Name name) noexcept {
    if (blocks.empty()) return;
    int64_t bytes = 0;
    for (Block &block : blocks) {
        bytes += block.bytes;
        try {
            block.free_marker.wait(std::nullopt);
        } catch (const Failure &) {
            (void)cudaGetLastError();
        }
    }
    blocks.clear();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        budgets_[name].bytes -= bytes;
    }
    if (name == staging) notify_freed();
}

DeviceMemory DevicePool::allocate_or_release(int64_t bytes) {
    try {
        return allocate_device(bytes);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        bool has_released = release_caches();
        has_released |= release();
        while (reclaim_slot_of(device_)) has_released = true;
        if (!has_released) throw;
    }
    release();  // the slots' memory
    return allocate_device(bytes);
}

void DevicePool::take_back(DeviceBuffer &buffer) noexcept {
    const Name name = name_of(buffer.account_);
    Blocks dropped;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        Budget &budget = budgets_[name];
        if (is_for_call(buffer.account_)) budget.call_bytes -= buffer.bytes_;
        if (buffer.block_.empty()) {
            budget.bytes -= buffer.bytes_;
        } else {
            try {
                Blocks &unused = budget.unused[buffer.bytes_];
                unused.splice(unused.end(), buffer.block_);
                budget.unused_bytes += buffer.bytes_;
            } catch (const std::bad_alloc &) {
                dropped = std::move(buffer.block_);
            }
        }
        // cudaFree waits for all work of the device, and an asynchronous call must not.
        const bool may_wait = StreamScope::current() == nullptr;
        while (may_wait && budget.unused_bytes > budget.max_unused) {
            Blocks one = remove_one(budget, true);
            if (one.empty()) break;
            dropped.splice(dropped.end(), one);
        }
    }
    buffer.block_.clear();
    destroy(std::move(dropped), name);
    if (name == staging) notify_freed();
}

int64_t DevicePool::unused_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t bytes = 0;
    for (const Budget &budget : budgets_) bytes += budget.unused_bytes;
    return bytes;
}

int64_t DevicePool::plan_budget() {
    require_cuda();
    const std::lock_guard<std::mutex> lock(mutex_);
    return budget_of(Account::resident).limit;
}

bool DevicePool::has_room(int64_t bytes, Account account) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Budget &budget = budget_of(account);
    return bytes <= budget.limit - budget.bytes;
}

// ---- Temporary storage ---------------------------------------------------------------------------

TemporaryStorage::TemporaryStorage(int device, StreamOrder stream, int64_t bytes) : stream_(stream) {
    const CurrentDevice current(device);
    if (bytes <= MAX_TEMPORARY_BYTES && stream && is_capturing(*stream)) {
        void *memory = nullptr;
        PK_CUDA(cudaMallocAsync(&memory, size_t(bytes), *stream));
        d_captured_ = static_cast<char *>(memory);
        return;
    }
    const Account account = bytes <= MAX_TEMPORARY_BYTES ? Account::temporary : Account::resident;
    buffer_ = DevicePool::of(device).allocate(bytes, stream, account);
    if (buffer_.d_memory() == nullptr) fail_device_budget("the temporary storage of this call", account);
}

TemporaryStorage::~TemporaryStorage() {
    // An error here follows one that was already reported.
    if (!stream_) return;
    if (d_captured_ != nullptr) (void)cudaFreeAsync(d_captured_, *stream_);
    buffer_.free(*stream_);
}

void fail_device_budget(const char *wanted, Account account) {
    const char *const variable =
        account == Account::resident ? "PYCUDAKIT_PLAN_MEMORY" : "PYCUDAKIT_DEVICE_MEMORY";
    fail(PK_OUT_OF_MEMORY, std::string(variable) + " has too little left for " + wanted +
                               ": raise it, or make fewer calls at once");
}

}  // namespace pk
