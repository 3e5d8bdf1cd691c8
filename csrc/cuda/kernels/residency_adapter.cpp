#include "residency_adapter.h"

#include <vector>

#include "device_operands.h"
#include "launcher.h"

namespace pk::kernels {

namespace {

constexpr int64_t ALIGNMENT = 256;  // which kernels expect of an array, as of what CUDA hands out

char *given(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }
bool moves(const pk_buffer &buffer) {
    return buffer.bytes != 0 && !lies_there(buffer) && (buffer.flags & (PK_BUFFER_UP | PK_BUFFER_DOWN)) != 0;
}
bool is_written(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_DOWN) != 0; }
bool overlap(const pk_buffer &a, const pk_buffer &b) {
    return a.address < b.address + uint64_t(b.bytes) && b.address < a.address + uint64_t(a.bytes);
}

// The buffers of a run, those that have a home there.
class AtHome {
   public:
    AtHome(const Run &run, Call &call, int device)
        : buffers_(run.buffers.begin(), run.buffers.end()), homes_(spans(device), call, {device}) {
        for (size_t span = 0; span < owners_.size(); ++span) {
            char *const home = homes_.of(int(span)).at;
            if (home == nullptr) continue;
            pk_buffer &buffer = buffers_[owners_[span]];
            buffer.address = reinterpret_cast<uint64_t>(home);
            buffer.stream = 0;  // nothing is under way
            buffer.flags |= PK_BUFFER_THERE;
        }
    }

    Table<pk_buffer> table() const { return {buffers_.data(), int64_t(buffers_.size())}; }

    // When the run has ended.
    void settle(const Run &run, Call &call, int device) {
        for (size_t span = 0; span < owners_.size(); ++span) {
            const plan::Home home = homes_.of(int(span));
            const pk_buffer &buffer = run.buffers[int64_t(owners_[span])];
            if (home.leaves) plan::bring_down(device, home.at, given(buffer), buffer.bytes, call);
        }
        homes_.settle();
    }
    void fail(const Progress &progress) {
        if (!progress.has_begun) homes_.leave();
        if (progress.is_abandoned) homes_.abandon();
    }

   private:
    static plan::Span span_of(const pk_buffer &buffer, bool stored, bool may_be_home) {
        return {given(buffer), buffer.bytes, ALIGNMENT, stored, may_be_home};
    }

    // Of a buffer that goes both ways, one that is read and one that is written.
    std::vector<plan::Span> spans(int device) {
        const std::vector<bool> may_be_home = which_may_be_home(device);
        std::vector<plan::Span> spans;
        for (size_t i = 0; i < buffers_.size(); ++i) {
            if (!moves(buffers_[i])) continue;
            for (const int flag : {PK_BUFFER_UP, PK_BUFFER_DOWN}) {
                if ((buffers_[i].flags & flag) == 0) continue;
                spans.push_back(span_of(buffers_[i], flag == PK_BUFFER_DOWN, may_be_home[i]));
                owners_.push_back(i);
            }
        }
        return spans;
    }

    // What is written of one range is written at home, or on the host.
    std::vector<bool> which_may_be_home(int device) const {
        std::vector<bool> may(buffers_.size());
        for (size_t i = 0; i < may.size(); ++i) may[i] = moves(buffers_[i]) && is_alone(i);
        const auto is_written_on_host = [&](size_t i) {
            return is_written(buffers_[i]) && moves(buffers_[i]) &&
                   !plan::have_homes({span_of(buffers_[i], true, may[i])}, {device});
        };
        for (bool has_changed = true; has_changed;) {
            has_changed = false;
            for (size_t i = 0; i < may.size(); ++i) {
                if (!is_written_on_host(i)) continue;
                const char *const low = given(buffers_[i]);
                for (const plan::Kept *range : plan::Plan::overlapping(low, low + buffers_[i].bytes)) {
                    for (size_t j = 0; j < may.size(); ++j) {
                        const char *const other = given(buffers_[j]);
                        const bool is_there = other < range->end() && other + buffers_[j].bytes > range->host;
                        if (!may[j] || !is_written(buffers_[j]) || !is_there) continue;
                        may[j] = false;
                        has_changed = true;
                    }
                }
            }
        }
        return may;
    }

    // Of buffers that have memory in common and are written, each is in memory of its own.
    bool is_alone(size_t index) const {
        const pk_buffer &buffer = buffers_[index];
        for (size_t i = 0; i < buffers_.size(); ++i) {
            const pk_buffer &other = buffers_[i];
            const bool is_apart = i == index || !moves(other) || !overlap(buffer, other);
            if (!is_apart && (is_written(buffer) || is_written(other))) return false;
        }
        return true;
    }

    std::vector<pk_buffer> buffers_;
    std::vector<size_t> owners_;  // a span's buffer each
    plan::Homes homes_;
};

}  // namespace

void run_in_plan(const Request &request, Call &call, int device) {
    AtHome at_home(request.run, call, device);
    Request there = request;
    there.run.buffers = at_home.table();
    Progress progress;
    try {
        run(there, call, device, &progress);
    } catch (...) {
        at_home.fail(progress);
        throw;
    }
    at_home.settle(request.run, call, device);
}

}  // namespace pk::kernels
