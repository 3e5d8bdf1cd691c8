// Work that runs a program over the elements of a chunk.
#pragma once

#include <utility>
#include <vector>

#include "common/elementwise.h"
#include "cuda/stream/resident.h"
#include "cuda/stream/stream.h"

namespace pk {

// Where a load finds its elements.
enum class Source : int32_t {
    chunk,     // in the chunk's memory, after `value` bytes an element
    resident,  // among what the device keeps, at `value`, as stream/resident.h says
    constant   // in `value` itself
};

// A step as the kernel reads it.
struct DeviceStep {
    uint16_t op;
    uint8_t type;
    uint8_t to;
    int32_t target, a, b, c;  // registers; of a load, `a` is a Source
    int32_t origin;           // of which instruction the exceptions are
    int64_t value;            // of a store, as of a load from the chunk
};

// What the kernel is given. Short programs come with it, others lie on the device.
struct Interpretation {
    static constexpr int MOST_INLINE = 48;

    char *memory;
    int64_t operands, scratch;      // where they lie in it
    int64_t start, count, rounded;  // elements
    const char *resident;
    const DeviceStep *steps;  // null: inline_steps
    int32_t step_count;
    int32_t registers_in_shared;
    int32_t per_thread;  // elements
    DeviceStep inline_steps[MOST_INLINE];
};

class Interpreter : public Work {
   public:
    // If it may not keep broadcast operands on the devices, staging spreads them out; if it may not turn
    // transposed ones there, staging does that, too.
    Interpreter(const Evaluation &evaluation, Call &call, const std::vector<int> &devices, bool may_keep,
                bool may_turn = false);

    void stage(const Carried &load, const Chunk &chunk, char *to) const override;
    void launch(const Chunk &chunk) override;
    void collect(const void *notes) override;

    bool has_room = false;  // for what it keeps on the devices

   protected:
    // Whether a chunk's memory has an operand that the program loads.
    bool carries(int operand) const;
    // Where it has that, or the values that the program stores to an operand without an address.
    int64_t offset_of(const Chunk &chunk, int operand) const;

   private:
    // The operands of a program by the way that they go.
    struct Ways {
        std::vector<Carried> loads, stores, values, turned;
        std::vector<int> resident;
        int64_t scratch_bytes = 0;  // of an element
        Ways(const Evaluation &evaluation, bool may_keep, bool may_turn, int block);
    };
    Interpreter(const Evaluation &evaluation, Call &call, const std::vector<int> &devices, Ways ways,
                int block);

    void find_source(DeviceStep &load, const std::vector<int> &resident);
    void transpose(const Chunk &chunk) const;

    const Evaluation evaluation_;
    Call &call_;
    const int block_;
    const std::vector<Carried> values_;  // that stay in the scratch
    const std::vector<Carried> turned_;  // loads, as they lie there when the device has turned them
    std::vector<DeviceStep> steps_;
    Resident resident_;
    int64_t steps_at_ = -1;  // where they are resident
    Interpretation common_{};
};

// Calls run(work) for work that keeps broadcast operands on the devices, or, without room for them, does not.
template <class Kind, class Run, class... Given>
void with_room(const Evaluation &evaluation, Call &call, const std::vector<int> &devices, Run run,
               Given &&...given) {
    for (const bool may_keep : {true, false}) {
        Kind work(evaluation, call, devices, may_keep, given...);
        if (work.has_room) return run(work);
    }
    fail(PK_OUT_OF_MEMORY, "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left for a program");
}

}  // namespace pk
