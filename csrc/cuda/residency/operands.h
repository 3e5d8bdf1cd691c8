// Where the operands of a call lie on the device, if they do.
#pragma once

#include <vector>

#include "common/layout.h"
#include "common/program.h"
#include "cuda/pipeline/pipeline.h"
#include "residency_map.h"

namespace pk::plan {

struct DeviceOperand {
    char *d_data = nullptr;   // of the operand's first element; null: the operand goes over the link as ever
    bool contiguous = false;  // the call's elements lie side by side there, in their order
    bool upload_first_use = false;  // a load: it goes up to there, dense, chunk by chunk, to stay
    bool copy_back = false;         // a store: it goes down to the host, too
};

// Memory of the host that a call reads, or writes all of.
struct HostRange {
    const char *low, *high;
    int64_t item;
    bool stored;
    bool may_be_resident;              // a kernel can use it there: it is dense, and what it wants
    bool may_upload_by_chunk = false;  // it may go up chunk by chunk

    HostRange(const void *begin, int64_t bytes, int64_t item, bool stored, bool may_be_resident = true)
        : low(static_cast<const char *>(begin)),
          high(low + bytes),
          item(item),
          stored(stored),
          may_be_resident(may_be_resident) {}
    HostRange(const Layout &layout, const View &view, bool stored);
};

// Whether all of them have one.
bool all_resident(const std::vector<HostRange> &host_ranges, const std::vector<int> &devices);

// The line that a call stands in: the thread's, where all that it works on lies there; else null.
const StreamScope *stream_scope_for(const std::vector<HostRange> &host_ranges,
                                    const std::vector<int> &devices);

// Brings what a program loads to its home, where that is not better done chunk by chunk.
void upload_loads(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices);

// Brings to the host what lies there.
void sync_to_host(const std::vector<HostRange> &host_ranges, Call &call);

// The homes of a call's operands. Made before the call's work, on the thread that made the call: what cannot
// come to its home chunk by chunk is brought there at once, and what has to be read or written on the host is
// brought down. If the call is not settled, it has failed, and what it was writing to is not valid.
// Unless a call may stand in its thread's line, it comes after what stands there.
class Operands {
   public:
    Operands(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices);
    // Of spans, each of which is an operand. What is read comes to its home at once, unless it may arrive.
    Operands(const std::vector<HostRange> &host_ranges, Call &call, const std::vector<int> &devices,
             bool can_run_async = false);
    // Of results that the host writes.
    Operands(const Layout &results, Call &call);
    // Of the caller's own operands on a device, in no plan.
    struct CallerOwned {};
    Operands(CallerOwned, const Layout &layout, Call &call);
    ~Operands();
    Operands(const Operands &) = delete;
    Operands &operator=(const Operands &) = delete;

    DeviceOperand of(int operand) const {
        return size_t(operand) < operands_.size() ? operands_[size_t(operand)] : DeviceOperand();
    }
    // Whether more calls of this kind are likely to come.
    bool is_repeated() const { return are_caller_owned_ || ResidencyScope::current() != nullptr; }
    // Whether somebody waits for the call, and is told what it met.
    bool reports_exceptions() const { return StreamScope::current() == nullptr; }
    void commit();
    // If the call has failed before it wrote to anything.
    void discard();
    // If somebody may write to what it was writing to for ever: nobody is to have that memory again.
    void poison();

    // Of dense operands: what a work carries, and where a chunk's elements of one are; null if nowhere.
    std::vector<StreamedOperand> loads(const std::vector<int> &operands) const;
    std::vector<StreamedOperand> stores(int operand) const;
    char *d_data(const DeviceAlgorithm &algorithm, const Chunk &chunk, int operand) const;

   private:
    void use_host(const Layout &layout, const View &view, bool stored);
    void use_host(const char *low, const char *high, bool stored);

    Call &call_;
    std::vector<DeviceOperand> operands_;
    std::vector<ResidentBuffer *> uploading_, written_, written_on_host_;
    bool is_committed_ = false;
    bool are_caller_owned_ = false;
};

}  // namespace pk::plan
