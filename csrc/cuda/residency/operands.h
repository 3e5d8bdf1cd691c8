// Resolves the operands of a call against the residency map: which are device-resident, and which are staged.
#pragma once

#include <deque>
#include <vector>

#include "common/layout.h"
#include "common/program.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/runtime/execution_context.h"
#include "residency_map.h"

namespace pk {

// An operand's device address, and the transfers that it still needs.
struct Operand {
    char *d_data = nullptr;         // of the first element; null: the operand is staged through the pipeline
    bool contiguous = false;        // its elements are contiguous on the device, in the call's order
    bool upload_first_use = false;  // a load: the pipeline uploads it by chunks, to stay resident
    bool copy_back = false;         // a store: it is also copied back to the host
};

// A result on the device that the host needs, too.
struct Download {
    int device = 0;
    char *d_data = nullptr, *host = nullptr;
    int64_t bytes = 0;
    const Layout *layout = nullptr;  // of the result in host memory, if it is strided there
    bool is_stored = false;

    // Store the result, which has been copied to `from`.
    void store(const char *from);
};

// A range of host memory that a call reads, or of which it writes every byte; or one of device memory of the
// caller's.
struct MemoryRange {
    const char *low, *high;
    int64_t item;
    bool stored;
    bool may_be_resident;  // a kernel can use a device copy: the range is dense and not byte-swapped
    bool may_upload_by_chunk = false;  // the pipeline may upload it chunk by chunk
    bool is_on_device = false;         // it is device memory

    MemoryRange(const void *begin, int64_t bytes, int64_t item, bool stored, bool may_be_resident = true)
        : low(static_cast<const char *>(begin)),
          high(low + bytes),
          item(item),
          stored(stored),
          may_be_resident(may_be_resident) {}
    MemoryRange(const Layout &layout, const View &view, bool stored);
};

// Return the ranges for a call that the host computes.
std::vector<MemoryRange> on_host(std::vector<MemoryRange> memory_ranges);

// Return true if all of the ranges are device-resident.
bool all_resident(const std::vector<MemoryRange> &memory_ranges, const ExecutionContext &context);

// Upload the resident operands that a program loads and whose device copy is not valid.
void upload_loads(const Layout &layout, const Program &program, Call &call, const ExecutionContext &context);

// Return true if all operands that a program loads are on the context's device, or single values.
bool loads_are_on_device(const Layout &layout, const Program &program, const ExecutionContext &context);

// Download the ranges whose host copy is not valid.
void sync_to_host(const std::vector<MemoryRange> &memory_ranges, Call &call);

// The operands of one call, resolved against the residency map on the thread that made the call.
//
// On construction: uploads inputs whose device copy is stale, unless the pipeline will upload them chunk by
// chunk; and downloads ranges that this call reads or writes on the host. commit() marks the outputs valid.
// If the call unwinds without it, after it has counted a launch (Call::count_launch), the device copies of
// its outputs are invalidated; before, all copies stay as they are.
class Operands {
   public:
    // Resolves the views that a program loads and stores, in host memory or on the context's device.
    Operands(const Layout &layout, const Program &program, Call &call, const ExecutionContext &context);
    // Resolve ranges, each of which is an operand. Inputs are uploaded at once, unless
    // `may_upload_by_chunk`.
    Operands(std::vector<MemoryRange> memory_ranges, Call &call, const ExecutionContext &context);
    ~Operands();
    Operands(const Operands &) = delete;
    Operands &operator=(const Operands &) = delete;

    // Return where an operand is; by default it is staged.
    Operand of(int operand) const {
        return size_t(operand) < operands_.size() ? operands_[size_t(operand)] : Operand();
    }
    // Return true if more calls of this kind are likely, so that compiling a fused kernel may pay.
    bool is_repeated() const { return context_.is_on_device || ResidencyScope::current() != nullptr; }
    // Mark the outputs valid on the device, after the call has succeeded.
    void commit();
    // For a call whose kernel hangs and may still write to its outputs: their device memory is never reused.
    void poison();

    // For dense operands: those that the pipeline must transfer (`loads`, `stores`), and the device address
    // of a chunk's elements of one (null: not on the device).
    std::vector<StreamedOperand> loads(const std::vector<int> &operands) const;
    std::vector<StreamedOperand> stores(int operand) const;
    char *d_data(const DeviceAlgorithm &algorithm, const Chunk &chunk, int operand) const;

    // For a dense result that is written as a whole: return its resident buffer or, if it is not resident,
    // new temporary storage; null if there is none. execute() downloads it if the host needs it. `layout` is
    // that of the result in host memory, if it may be strided there.
    char *d_result(int operand, const Layout *layout = nullptr);
    std::vector<Download> &downloads() { return downloads_; }
    // Download the results that the host needs and does not have yet.
    void download_results();

   private:
    void use_host(const Layout &layout, const View &view, bool stored);
    void use_host(const char *low, const char *high, bool stored);

    Call &call_;
    const ExecutionContext &context_;
    std::vector<Operand> operands_;
    std::vector<MemoryRange> memory_ranges_;
    std::vector<ResidentBuffer *> uploading_, written_, written_on_host_;
    std::vector<Download> downloads_;
    std::deque<TemporaryStorage> result_memory_;
    bool is_committed_ = false;
    int64_t launches_before_;  // the call's launches when its outputs were resolved
};

}  // namespace pk
