#include "residency_map.h"

#include <utility>

#include "cuda/pipeline/pipeline.h"
#include "cuda/runtime/inline_upload.h"

namespace pk::plan {

namespace {

Layout bytes_at(char *host, int64_t bytes) {
    Layout layout;
    layout.shape = {bytes};
    layout.size = bytes;
    layout.views = {{host, PK_UINT8, 1, false, Access::contiguous, {1}}};
    return layout;
}

// Nothing but the way, up or down.
class Moving : public Work {
   public:
    Moving(const Layout &layout, std::vector<Carried> up, std::vector<Carried> down)
        : Work(layout, std::move(up), std::move(down), 0, 0) {
        may_stay = is_counted = false;
    }
    void launch(const Chunk &) override {}
    void collect(const void *) override {}
};

Carried at(char *home) {
    Carried carried{0, 1};
    carried.home = home;
    return carried;
}

}  // namespace

bool Kept::bring_up_in_line(Call &call) {
    if (on_device || !on_host) return on_device;
    const Line *const line = Line::on(device);
    if (line == nullptr || bytes > MOST_WITH_LAUNCHES) return false;
    const CurrentDevice current(device);
    write_with_launches(host, bytes, home(), line->stream);
    call.report.bytes_up += bytes;
    on_device = true;
    return true;
}

void Kept::bring_up(Call &call) {
    if (bring_up_in_line(call)) return;
    const Layout layout = bytes_at(host, bytes);
    Moving work(layout, {at(home())}, {});
    stream(work, call, {device}, {{0, bytes}});
    on_device = true;
}

void Kept::fetch(Call &call) {
    if (on_host || !on_device) return;
    bring_down(device, home(), host, bytes, call);
    on_host = true;
}

void bring_down(int device, char *home, char *host, int64_t bytes, Call &call) {
    const Layout layout = bytes_at(host, bytes);
    Moving work(layout, {}, {at(home)});
    stream(work, call, {device}, {{0, bytes}});
}

int device_of_lent(uint64_t home, int64_t bytes, uint64_t stream) {
    require_cuda();
    int device = -1;
    for (const uint64_t byte : {home, home + uint64_t(bytes) - 1}) {
        cudaPointerAttributes attributes{};
        PK_CUDA(cudaPointerGetAttributes(&attributes, reinterpret_cast<const void *>(byte)));
        require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
                "home is no memory of a device, or it has been freed");
        require(device < 0 || attributes.device == device, "home goes beyond its memory");
        device = attributes.device;
    }
    if (stream == 0) return device;
    const CurrentDevice current(device);
    PK_CUDA(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream)));
    return device;
}

thread_local Plan *Plan::innermost_ = nullptr;

void Plan::queue_in(cudaStream_t stream) {
    if (line_) Line::wait();
    line_.reset();
    if (stream == nullptr) return;
    line_.emplace(device_, stream);
}

std::vector<Kept *> Plan::overlapping(const char *low, const char *high) {
    std::vector<Kept *> found;
    for (Plan *plan = innermost_; plan != nullptr; plan = plan->outer_) {
        auto next = plan->kept_.upper_bound(low);
        if (next != plan->kept_.begin() && std::prev(next)->second.end() > low) --next;
        for (; next != plan->kept_.end() && next->first < high; ++next) found.push_back(&next->second);
    }
    return found;
}

Kept *Plan::find(uint64_t address) {
    const auto *const at = reinterpret_cast<const char *>(address);
    const std::vector<Kept *> found = overlapping(at, at + 1);
    return found.empty() ? nullptr : found.front();
}

void Plan::add(Kept kept) {
    const char *const host = kept.host;
    kept_.emplace(host, std::move(kept));
}

void Plan::drop(const Kept &kept) {
    const char *const host = kept.host;
    for (Plan *plan = innermost_; plan != nullptr; plan = plan->outer_) {
        const auto found = plan->kept_.find(host);
        if (found == plan->kept_.end()) continue;
        plan->kept_.erase(found);
        return;
    }
}

}  // namespace pk::plan
