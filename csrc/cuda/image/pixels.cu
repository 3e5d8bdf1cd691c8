// Grey pixels, and pixels by a table.
#include "pixels.cuh"

#include <cstring>

#include "cuda/stream/resident.h"
#include "cuda/stream/stream.h"

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
    explicit GrayWork(const Grey &given)
        : Work(given.layout, {{0, 0}}, {}, 0, 0), given_(given), item_(given.layout.views[0].item) {
        unit_elements = given.grey.channels;
        result_bytes = item_;
    }
    int64_t units() const override { return given_.pixels(); }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }
    void launch(const Chunk &chunk) override {
        with_type(given_.type, [&](auto of_type) {
            using T = decltype(of_type);
            launch_for(chunk.units.count, chunk.queue, device::make_gray<T>,
                       reinterpret_cast<const T *>(chunk.memory + chunk.operand(loads[0])),
                       reinterpret_cast<T *>(chunk.memory + chunk.results), chunk.units.count, given_.grey);
        });
    }
    void deliver(const Chunk &chunk, const char *results) override {
        std::memcpy(given_.out + chunk.units.start * item_, results, size_t(chunk.units.count * item_));
    }
    void collect(const void *) override {}

   private:
    const Grey &given_;
    const int64_t item_;
};

class LookupWork : public Work {
   public:
    LookupWork(const Lookup &given, Call &call, const std::vector<int> &devices)
        : Work(given.layout, {{0, 0}}, {{1, 0}}, 0, 0), type_(given.layout.views[0].type) {
        offset_ = table_.add(given.table, given.count * int64_t(sizeof(uint16_t)));
        if (!table_.upload(call, devices)) fail_for_room();
    }
    void launch(const Chunk &chunk) override {
        const auto *table = reinterpret_cast<const uint16_t *>(table_.on(chunk.device) + offset_);
        with_type(type_, [&](auto of_type) {
            using T = decltype(of_type);
            if constexpr (!std::is_same<T, float>::value) {
                launch_for(chunk.count, chunk.queue, device::look_up<T>,
                           reinterpret_cast<const T *>(chunk.memory + chunk.operand(loads[0])),
                           reinterpret_cast<T *>(chunk.memory + chunk.operand(stores[0])), chunk.count,
                           table);
            }
        });
    }
    void collect(const void *) override {}

   private:
    const int type_;
    Resident table_;
    int64_t offset_ = 0;
};

}  // namespace

void make_gray(const Grey &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    GrayWork work(given);
    stream(work, call, devices, {{0, work.units()}});
}

void look_up(const Lookup &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    LookupWork work(given, call, devices);
    stream(work, call, devices, {{0, given.size}});
}

}  // namespace pk::image
