// Grey pixels, and pixels by a table.
#include "pixels.cuh"

#include <cstring>

#include "cuda/stream/resident.h"
#include "cuda/stream/stream.h"

namespace pk::image {

namespace {

namespace device {

using image::device::own_index;

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

void make_gray(const T *in, T *out, int64_t count, pixels::Grey grey) {
    const int64_t i = own_index();
    if (i < count) out[i] = pixels::grey_of(in + i * grey.channels, grey);
}

template <class T>
__global__ void look_up(const T *in, T *out, int64_t count, const uint16_t *table) {
    const int64_t i = own_index();
    if (i < count) out[i] = T(table[in[i]]);
}

// Sums along each of some old rows.
template <class T>
__global__ void add_along(const T *rows, int64_t row_elements, int64_t channels, pixels::Taps across,
                          int64_t count, double *along) {
    const int64_t i = own_index(), elements = across.size * channels;
    if (i >= count) return;
    const T *row = rows + i / elements * row_elements + i % channels;
    along[i] = pixels::along_row(row, channels, across, i % elements / channels);
}

// What is added up for new rows: those from `first` on, of old ones from `old_first` on.
struct Sums {
    int64_t first, elements, height, new_height;
    int64_t old_first, old_rows;
    const double *along;
    pixels::Taps down;
};

// Adds what some old rows give; an earlier launch has added those before them.
__global__ void add_down(Sums given, int64_t count, double *sums) {
    const int64_t i = own_index();
    if (i >= count) return;
    const int64_t row = given.first + i / given.elements, place = row % given.new_height;
    // The first of its old rows, counted from those that are there; and which of its own are.
    const int64_t base = row / given.new_height * given.height + given.down.first[place] - given.old_first;
    const int64_t begin = base < 0 ? -base : 0, left = given.old_rows - base;
    const int64_t end = left < given.down.count(place) ? left : given.down.count(place);
    const double *weights = given.down.weights + given.down.begin[place];
    const double *column = given.along + i % given.elements;
    double sum = begin == 0 ? 0 : sums[i];
    for (int64_t k = begin; k < end; ++k) {
        const double value = weights[k] * column[(base + k) * given.elements];
        sum = k == 0 ? value : sum + value;
    }
    if (begin < end) sums[i] = sum;
}

template <class T>
__global__ void round_sums(const double *sums, double divisor, int64_t count, T *out) {
    const int64_t i = own_index();
    if (i < count) out[i] = pixels::rounded<T>(sums[i], divisor);
}

}  // namespace device

// A thread for each of `count` elements.
template <class Kernel, class... Given>
void launch_for(int64_t count, cudaStream_t queue, Kernel kernel, Given... given) {
    kernel<<<unsigned((count + THREADS - 1) / THREADS), THREADS, 0, queue>>>(given...);
    PK_CUDA(cudaGetLastError());
}

// Calls body(T()) for an image's type.
template <class Body>
void with_type(int type, Body body) {
    switch (type) {
        case PK_UINT8: return body(uint8_t());
        case PK_UINT16: return body(uint16_t());
        default: return body(float());
    }
}

[[noreturn]] void fail_for_room() {
    fail(PK_OUT_OF_MEMORY,
         "other calls have too much of PYCUDAKIT_DEVICE_MEMORY, or it is too small for a row of the image");
}

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

void make_gray(const Grey &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    GrayWork work(given);
    stream(work, call, devices, {{0, work.units()}});
}

void look_up(const T *in, T *out, int64_t count, const uint16_t *table) {
    const int64_t i = own_index();
    if (i < count) out[i] = T(table[in[i]]);
}

// Sums along each of some old rows.
template <class T>
__global__ void add_along(const T *rows, int64_t row_elements, int64_t channels, pixels::Taps across,
                          int64_t count, double *along) {
    const int64_t i = own_index(), elements = across.size * channels;
    if (i >= count) return;
    const T *row = rows + i / elements * row_elements + i % channels;
    along[i] = pixels::along_row(row, channels, across, i % elements / channels);
}

// What is added up for new rows: those from `first` on, of old ones from `old_first` on.
struct Sums {
    int64_t first, elements, height, new_height;
    int64_t old_first, old_rows;
    const double *along;
    pixels::Taps down;
};

// Adds what some old rows give; an earlier launch has added those before them.
__global__ void add_down(Sums given, int64_t count, double *sums) {
    const int64_t i = own_index();
    if (i >= count) return;
    const int64_t row = given.first + i / given.elements, place = row % given.new_height;
    // The first of its old rows, counted from those that are there; and which of its own are.
    const int64_t base = row / given.new_height * given.height + given.down.first[place] - given.old_first;
    const int64_t begin = base < 0 ? -base : 0, left = given.old_rows - base;
    const int64_t end = left < given.down.count(place) ? left : given.down.count(place);
    const double *weights = given.down.weights + given.down.begin[place];
    const double *column = given.along + i % given.elements;
    double sum = begin == 0 ? 0 : sums[i];
    for (int64_t k = begin; k < end; ++k) {
        const double value = weights[k] * column[(base + k) * given.elements];
        sum = k == 0 ? value : sum + value;
    }
    if (begin < end) sums[i] = sum;
}

template <class T>
__global__ void round_sums(const double *sums, double divisor, int64_t count, T *out) {
    const int64_t i = own_index();
    if (i < count) out[i] = pixels::rounded<T>(sums[i], divisor);
}

}  // namespace device

// A thread for each of `count` elements.
template <class Kernel, class... Given>
void launch_for(int64_t count, cudaStream_t queue, Kernel kernel, Given... given) {
    kernel<<<unsigned((count + THREADS - 1) / THREADS), THREADS, 0, queue>>>(given...);
    PK_CUDA(cudaGetLastError());
}

// Calls body(T()) for an image's type.
template <class Body>
void with_type(int type, Body body) {
    switch (type) {
        case PK_UINT8: return body(uint8_t());
        case PK_UINT16: return body(uint16_t());
        default: return body(float());
    }
}

[[noreturn]] void fail_for_room() {
    fail(PK_OUT_OF_MEMORY,
         "other calls have too much of PYCUDAKIT_DEVICE_MEMORY, or it is too small for a row of the image");
}

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

void make_gray(const Grey &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    GrayWork work(given);
    stream(work, call, devices, {{0, work.units()}});
}

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

void look_up(const Lookup &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    LookupWork work(given, call, devices);
    stream(work, call, devices, {{0, given.size}});
}

}  // namespace pk::image
