#include "operands.h"

#include <algorithm>

namespace pk::plan {

namespace {

// The host's memory from an operand's first byte to behind its last.
struct Extent {
    const char *low, *high;

    Extent(const Layout &layout, const View &view) : low(view.base), high(view.base + view.item) {
        for (size_t d = 0; d < layout.shape.size(); ++d) {
            const int64_t reach = (layout.shape[d] - 1) * view.strides[d];
            (reach < 0 ? low : high) += reach;
        }
    }
};

bool is_dense(const Layout &layout, const View &view) {
    int64_t stride = view.item;
    for (size_t d = layout.shape.size(); d-- > 0; stride *= layout.shape[d]) {
        if (view.strides[d] != stride) return false;
    }
    return true;
}

// The one range on the call's device that has all of a piece of memory.
Kept *range_of(const char *low, const char *high, const std::vector<int> &devices) {
    const std::vector<Kept *> found = Plan::overlapping(low, high);
    const bool is_there = found.size() == 1 && found[0]->has(low, high) && devices.size() == 1 &&
                          found[0]->device == devices[0];
    return is_there ? found[0] : nullptr;
}

// The range that a kernel finds all of an operand in. Kernels do not turn bytes round, and what is not
// aligned to its elements they cannot read.
Kept *home_of(const Layout &layout, const View &view, const std::vector<int> &devices) {
    const Extent extent(layout, view);
    Kept *const found = range_of(extent.low, extent.high, devices);
    if (found == nullptr || view.swapped) return nullptr;
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(found->home_of(view.base)) % uintptr_t(view.item) == 0 &&
        std::all_of(view.strides.begin(), view.strides.end(), [&](int64_t s) { return s % view.item == 0; });
    return is_aligned ? found : nullptr;
}

// The same of a span.
Kept *home_of(const Span &span, const std::vector<int> &devices) {
    Kept *const found = range_of(span.low, span.high, devices);
    if (found == nullptr || !span.may_be_home) return nullptr;
    const auto at = reinterpret_cast<uintptr_t>(found->home_of(span.low));
    return at % uintptr_t(span.item) == 0 ? found : nullptr;
}

bool contains(const std::vector<Kept *> &group, const Kept *kept) {
    return std::find(group.begin(), group.end(), kept) != group.end();
}

}  // namespace

Span::Span(const Layout &layout, const View &view, bool stored)
    : Span(view.base, 0, view.item, stored, is_dense(layout, view) && !view.swapped) {
    const Extent extent(layout, view);
    low = extent.low;
    high = extent.high;
}

bool have_homes(const std::vector<Span> &spans, const std::vector<int> &devices) {
    return Plan::innermost() != nullptr && std::all_of(spans.begin(), spans.end(), [&](auto &span) {
               return home_of(span, devices) != nullptr;
           });
}

const Line *line_of(const std::vector<Span> &spans, const std::vector<int> &devices) {
    const Line *const line = Line::on(devices);
    return line != nullptr && have_homes(spans, devices) ? line : nullptr;
}

void bring_up(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices) {
    if (Plan::innermost() == nullptr) return;
    for (const Step &step : program.steps) {
        if (step.op != PK_LOAD) continue;
        Kept *const found = home_of(layout, layout.views[size_t(step.a)], devices);
        if (found != nullptr && found->on_host && !found->on_device) found->bring_up(call);
    }
}

void bring_down(const std::vector<Span> &spans, Call &call) {
    for (const Span &span : spans) {
        for (Kept *kept : Plan::overlapping(span.low, span.high)) kept->fetch(call);
    }
}

Homes::Homes(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices)
    : call_(call) {
    if (Plan::innermost() == nullptr) return;
    const std::vector<View> &views = layout.views;
    const bool is_whole = call.ranges().size() == 1 && call.ranges()[0].count >= layout.size;
    std::vector<bool> loaded(views.size(), false);
    for (const Step &step : program.steps) {
        if (step.op == PK_LOAD) loaded[size_t(step.a)] = true;
    }
    homes_.resize(views.size());
    std::vector<Kept *> kept(views.size(), nullptr);
    for (size_t i = 0; i < views.size(); ++i) {
        const View &view = views[i];
        const bool stored = program.stored[i];
        if (view.base == nullptr || (!loaded[i] && !stored)) continue;
        Kept *const found = home_of(layout, view, devices);
        // A constant comes with the program.
        if (found == nullptr || (view.access == Access::constant && found->on_host)) {
            go_over_host(layout, view, stored);
            continue;
        }
        const bool covers = is_whole && is_dense(layout, view) && layout.size * view.item == found->bytes;
        const bool overwrites = !loaded[i] && (covers || !found->on_host);
        if (loaded[i]) found->bring_up_in_line(call);
        if (!found->on_device && !overwrites && !(loaded[i] && covers)) found->bring_up(call);
        kept[i] = found;
    }
    for (size_t i = 0; i < views.size(); ++i) {
        if (kept[i] == nullptr) continue;
        Home &home = homes_[i];
        home.at = kept[i]->home_of(views[i].base);
        home.dense = is_dense(layout, views[i]);
        // Of an operand that is there twice, one goes up.
        if (loaded[i] && !kept[i]->on_device && !contains(arriving_, kept[i])) {
            home.arrives = true;
            arriving_.push_back(kept[i]);
        }
        if (program.stored[i]) {
            home.leaves = kept[i]->what == PK_KEEP_RESULT;
            written_.push_back(kept[i]);
        }
    }
}

Homes::Homes(const std::vector<Span> &spans, Call &call, const std::vector<int> &devices, bool may_queue)
    : call_(call) {
    if (!may_queue) Line::wait();
    if (Plan::innermost() == nullptr) return;
    homes_.resize(spans.size());
    for (size_t i = 0; i < spans.size(); ++i) {
        const Span &span = spans[i];
        if (span.low == span.high) continue;
        Kept *const found = home_of(span, devices);
        if (found == nullptr) {
            go_over_host(span.low, span.high, span.stored);
            continue;
        }
        const bool covers = span.high - span.low == found->bytes;
        const bool overwrites = span.stored && (covers || !found->on_host);
        if (!span.stored) found->bring_up_in_line(call);
        const bool arrives = !span.stored && span.may_arrive && covers && !found->on_device;
        if (arrives) {
            homes_[i].arrives = true;
            arriving_.push_back(found);
        } else if (found->on_host && !found->on_device && !overwrites) {
            found->bring_up(call);
        }
        homes_[i].at = found->home_of(span.low);
        homes_[i].dense = true;
        if (!span.stored) continue;
        homes_[i].leaves = found->what == PK_KEEP_RESULT;
        written_.push_back(found);
    }
}

Homes::Homes(const Layout &results, Call &call) : call_(call) {
    if (Plan::innermost() == nullptr) return;
    for (const View &view : results.views) go_over_host(results, view, true);
}

Homes::Homes(Callers, const Layout &layout, Call &call) : call_(call), is_settled_(true), are_callers_(true) {
    for (const View &view : layout.views) {
        homes_.emplace_back();
        if (view.on_device) homes_.back() = {view.base, is_dense(layout, view)};
    }
}

void Homes::go_over_host(const Layout &layout, const View &view, bool stored) {
    const Extent extent(layout, view);
    go_over_host(extent.low, extent.high, stored);
}

void Homes::go_over_host(const char *low, const char *high, bool stored) {
    for (Kept *kept : Plan::overlapping(low, high)) {
        kept->fetch(call_);
        if (stored) written_on_host_.push_back(kept);
    }
}

std::vector<Carried> Homes::loads(const std::vector<int> &operands) const {
    std::vector<Carried> carried;
    for (int operand : operands) {
        const Home home = of(operand);
        if (home.at != nullptr && !home.arrives) continue;
        carried.push_back({operand, 0});
        carried.back().home = home.at;
    }
    return carried;
}

std::vector<Carried> Homes::stores(int operand) const {
    const Home home = of(operand);
    if (home.at != nullptr && !home.leaves) return {};
    Carried carried{operand, 0};
    carried.home = home.at;
    return {carried};
}

char *Homes::at(const Work &work, const Chunk &chunk, int operand) const {
    const Home home = of(operand);
    if (home.at != nullptr) return home.at + chunk.start * work.layout.views[size_t(operand)].item;
    for (const std::vector<Carried> *group : {&work.loads, &work.stores}) {
        for (const Carried &carried : *group) {
            if (carried.operand == operand) return chunk.memory + chunk.operand(carried);
        }
    }
    return nullptr;
}

void Homes::settle() {
    is_settled_ = true;
    for (Kept *kept : arriving_) kept->on_device = true;
    for (Kept *kept : written_) {
        kept->on_device = true;
        kept->on_host = kept->what == PK_KEEP_RESULT;
    }
    for (Kept *kept : written_on_host_) kept->change_on_host();
}

void Homes::leave() { is_settled_ = true; }

void Homes::abandon() {
    is_settled_ = true;
    call_.not_delivered(call_.ranges());
    std::sort(written_.begin(), written_.end());
    written_.erase(std::unique(written_.begin(), written_.end()), written_.end());
    for (Kept *kept : written_) {
        kept->memory.abandon();
        Plan::drop(*kept);
    }
}

Homes::~Homes() {
    if (is_settled_) return;
    for (const auto *group : {&arriving_, &written_, &written_on_host_}) {
        for (Kept *kept : *group) kept->on_device = false;
    }
    // What was stored at home is lost, and so nobody can take over the rest alone.
    if (!written_.empty()) call_.not_delivered(call_.ranges());
}

}  // namespace pk::plan
