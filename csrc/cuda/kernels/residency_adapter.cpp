// Replaces the host buffers of a run of user kernels by the device addresses of resident ones.
#include "residency_adapter.h"

#include <vector>

#include "device_operands.h"
#include "launcher.h"

namespace pk::kernels {

namespace {

char *host_address(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }
bool is_transferred(const pk_buffer &buffer) {
    return buffer.bytes != 0 && !is_on_device(buffer) &&
           (buffer.flags & (PK_BUFFER_UPLOAD | PK_BUFFER_DOWNLOAD)) != 0;
}
bool is_written(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_DOWNLOAD) != 0; }
bool overlap(const pk_buffer &a, const pk_buffer &b) {
    return a.address < b.address + uint64_t(b.bytes) && b.address < a.address + uint64_t(a.bytes);
}

// The buffers of a run, with resident ones replaced by device arrays.
class ResidentBuffers {
   public:
    ResidentBuffers(const Run &run, Call &call, const ExecutionContext &context)
        : buffers_(run.buffers.begin(), run.buffers.end()), operands_(memory_ranges(context), call, context) {
        for (size_t memory_range = 0; memory_range < owners_.size(); ++memory_range) {
            char *const d_data = operands_.of(int(memory_range)).d_data;
            if (d_data == nullptr) continue;
            pk_buffer &buffer = buffers_[owners_[memory_range]];
            buffer.address = reinterpret_cast<uint64_t>(d_data);
            buffer.stream = 0;  // no work on it is pending
            buffer.flags |= PK_ON_DEVICE;
        }
    }

    Table<pk_buffer> table() const { return {buffers_.data(), int64_t(buffers_.size())}; }

    // Copy outputs back and mark them valid, after the run.
    void commit(const Run &run, Call &call, int device) {
        for (size_t memory_range = 0; memory_range < owners_.size(); ++memory_range) {
            const Operand resident = operands_.of(int(memory_range));
            const pk_buffer &buffer = run.buffers[int64_t(owners_[memory_range])];
            if (resident.copy_back)
                download(device, resident.d_data, host_address(buffer), buffer.bytes, call);
        }
        operands_.commit();
    }
    // For a run that failed.
    void fail(const RunState &state) {
        if (state.is_detached) operands_.poison();
    }

   private:
    static MemoryRange memory_range_of(const pk_buffer &buffer, bool stored, bool may_be_resident) {
        return {host_address(buffer), buffer.bytes, DEVICE_ALIGNMENT, stored, may_be_resident};
    }

    // Return a range for each transfer: a buffer that is uploaded and downloaded has two.
    std::vector<MemoryRange> memory_ranges(const ExecutionContext &context) {
        const std::vector<bool> may_be_resident = find_residency(context);
        std::vector<MemoryRange> memory_ranges;
        for (size_t i = 0; i < buffers_.size(); ++i) {
            if (!is_transferred(buffers_[i])) continue;
            for (const int flag : {PK_BUFFER_UPLOAD, PK_BUFFER_DOWNLOAD}) {
                if ((buffers_[i].flags & flag) == 0) continue;
                memory_ranges.push_back(
                    memory_range_of(buffers_[i], flag == PK_BUFFER_DOWNLOAD, may_be_resident[i]));
                owners_.push_back(i);
            }
        }
        return memory_ranges;
    }

    // Decide which buffers may be resident. The buffers of one resident range must be written either all on
    // the device or all on the host.
    std::vector<bool> find_residency(const ExecutionContext &context) const {
        std::vector<bool> may_be_resident(buffers_.size());
        for (size_t i = 0; i < may_be_resident.size(); ++i)
            may_be_resident[i] = is_transferred(buffers_[i]) && overlaps_nothing(i);
        const auto is_written_on_host = [&](size_t i) {
            return is_written(buffers_[i]) && is_transferred(buffers_[i]) &&
                   !all_resident({memory_range_of(buffers_[i], true, may_be_resident[i])}, context);
        };
        for (bool has_changed = true; has_changed;) {
            has_changed = false;
            for (size_t i = 0; i < may_be_resident.size(); ++i) {
                if (!is_written_on_host(i)) continue;
                const char *const low = host_address(buffers_[i]);
                for (const ResidentBuffer *resident :
                     ResidencyScope::overlapping(low, low + buffers_[i].bytes)) {
                    for (size_t j = 0; j < may_be_resident.size(); ++j) {
                        const char *const other = host_address(buffers_[j]);
                        const bool is_overlapped =
                            other < resident->end() && other + buffers_[j].bytes > resident->host;
                        if (!may_be_resident[j] || !is_written(buffers_[j]) || !is_overlapped) continue;
                        may_be_resident[j] = false;
                        has_changed = true;
                    }
                }
            }
        }
        return may_be_resident;
    }

    // Return true unless the buffer overlaps another and one of them is written. Such buffers get separate
    // copies.
    bool overlaps_nothing(size_t index) const {
        const pk_buffer &buffer = buffers_[index];
        for (size_t i = 0; i < buffers_.size(); ++i) {
            const pk_buffer &other = buffers_[i];
            const bool is_disjoint = i == index || !is_transferred(other) || !overlap(buffer, other);
            if (!is_disjoint && (is_written(buffer) || is_written(other))) return false;
        }
        return true;
    }

    std::vector<pk_buffer> buffers_;
    std::vector<size_t> owners_;  // the buffer of each memory range
    Operands operands_;
};

}  // namespace

void run_in_residency_scope(const Request &request, Call &call, int device) {
    const ExecutionContext context = ExecutionContext::on_first_device(call);
    StreamScope::synchronize();  // the run has a stream of its own
    ResidentBuffers resident_buffers(request.run, call, context);
    Request device_request = request;
    device_request.run.buffers = resident_buffers.table();
    RunState state;
    try {
        run(device_request, call, device, &state);
    } catch (...) {
        resident_buffers.fail(state);
        throw;
    }
    resident_buffers.commit(request.run, call, device);
}

}  // namespace pk::kernels
