// Grey pixels, and pixels by a table.
#include "pixels.cuh"

#include <cstring>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"

namespace pk::image {

namespace {

namespace device {

template <class T>
__global__ void make_gray(const T *in, T *out, int64_t count, pixels::Grey grey) {
    const int64_t i = own_index();
    if (i < count) out[i] = pixels::grey_of(in + i * grey.channels, grey);
}

template <class T>
__global__ void look_up(const T *in, T *out, int64_t count, const uint16_t *table) {
    const int64_t i = own_index();
    if (i < count) out[i] = T(table[in[i]]);
}

}  // namespace device

// A unit is a pixel, whose channels are its elements.
class GrayWork : public Work {
   public:
    GrayWork(const Grey &given, const plan::Homes &homes)
        : Work(given.layout, homes.loads({0}), {}, 0, 0),
          given_(given),
          homes_(homes),
          item_(given.layout.views[0].item) {
        unit_elements = given.grey.channels;
        result_bytes = homes.of(1).at != nullptr ? 0 : item_;
        may_queue = true;
    }
    int64_t units() const override { return given_.pixels(); }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }
    void launch(const Chunk &chunk) override {
        with_type(given_.type, [&](auto of_type) {
            using T = decltype(of_type);
            char *const home = homes_.of(1).at;
            launch_for(chunk.units.count, chunk.queue, device::make_gray<T>,
                       reinterpret_cast<const T *>(homes_.at(*this, chunk, 0)),
                       reinterpret_cast<T *>(home != nullptr ? home + chunk.units.start * item_
                                                             : chunk.memory + chunk.results),
                       chunk.units.count, given_.grey);
        });
    }
    void deliver(const Chunk &chunk, const char *results) override {
        std::memcpy(given_.out + chunk.units.start * item_, results, size_t(chunk.units.count * item_));
    }
    void collect(const void *) override {}

   private:
    const Grey &given_;
    const plan::Homes &homes_;
    const int64_t item_;
};

class LookupWork : public Work {
   public:
    LookupWork(const Lookup &given, const plan::Homes &homes, Call &call, const std::vector<int> &devices)
        : Work(given.layout, homes.loads({0}), homes.stores(1), 0, 0),
          homes_(homes),
          type_(given.layout.views[0].type) {
        may_queue = true;
        offset_ = table_.add_parameters(given.table, given.count * int64_t(sizeof(uint16_t)));
        if (!table_.upload(call, devices)) fail_for_room();
    }
    void launch(const Chunk &chunk) override {
        const auto *table = reinterpret_cast<const uint16_t *>(table_.on(chunk.device) + offset_);
        with_type(type_, [&](auto of_type) {
            using T = decltype(of_type);
            if constexpr (!std::is_same<T, float>::value) {
                launch_for(chunk.count, chunk.queue, device::look_up<T>,
                           reinterpret_cast<const T *>(homes_.at(*this, chunk, 0)),
                           reinterpret_cast<T *>(homes_.at(*this, chunk, 1)), chunk.count, table);
            }
        });
    }
    void collect(const void *) override {}

   private:
    const plan::Homes &homes_;
    const int type_;
    Resident table_;
    int64_t offset_ = 0;
};

}  // namespace

void make_gray(const Grey &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    plan::Span in(given.layout, given.layout.views[0], false);
    in.may_arrive = true;
    const int64_t item = given.layout.views[0].item, bytes = given.pixels() * item;
    plan::Homes homes({in, {given.out, bytes, item, true}}, call, devices, true);
    GrayWork work(given, homes);
    stream(work, call, devices, {{0, work.units()}});
    const plan::Home out = homes.of(1);
    if (out.leaves) plan::bring_down(0, out.at, given.out, bytes, call);
    homes.settle();
}

void look_up(const Lookup &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    const Layout &layout = given.layout;
    plan::Span in(layout, layout.views[0], false);
    in.may_arrive = true;
    const plan::Span out(layout, layout.views[1], true);
    // It goes up from the host.
    const plan::Span table(given.table, given.count * int64_t(sizeof(uint16_t)), 2, false, false);
    plan::Homes homes({in, out, table}, call, devices, true);
    LookupWork work(given, homes, call, devices);
    stream(work, call, devices, {{0, given.size}});
    homes.settle();
}

}  // namespace pk::image
