// Work that runs a program over the elements of a chunk.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/elementwise.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"
#include "cuda/runtime/stream_memory.h"

namespace pk {

// Where a load finds its elements, or a store puts them.
enum class Source : int32_t {
    chunk,      // in the chunk's memory, after `value` bytes an element
    broadcast,  // among what the device keeps, at `value`, in `c` dimensions, as stream/resident.h says
    constant,   // in `value` itself
    resident,   // from the address `value` on, those of the whole call side by side
    resident_strided,  // from the address `value` on, at the coordinates' strides `c` on
};

// A step as the kernel reads it.
struct DeviceStep {
    uint16_t op;
    uint8_t type;
    uint8_t to;
    int32_t target, a, b, c;  // registers; of a load, `a` is a Source, of a store, `b`
    int32_t origin;           // of which instruction the exceptions are
    int64_t value;
};

// What finds an element's coordinates, and the strides of the operands that are found by these, in one table:
//   dims | of each from the last on: its size, and what divides by it | dims strides in bytes for each
//   operand
// Division is by a multiplication where all elements are fewer than 2^31.
class UnravelTable {
   public:
    static constexpr int64_t MAX_SMALL = (int64_t(1) << 31) - 1;
    explicit UnravelTable(const Layout &layout) : layout_(layout) {}

    // Where the operand's strides begin.
    int32_t add(const View &view);
    // Empty, if no operand needs it.
    const std::vector<int64_t> &table() const { return table_; }

   private:
    void begin();

    const Layout &layout_;
    std::vector<int64_t> table_;
};

// What the kernel is given. Short programs come with it, others lie on the device.
struct InterpreterParams {
    static constexpr int MAX_INLINE = 48, MAX_COORDINATES = 96;

    char *memory;
    int64_t operands, scratch;      // where they lie in it
    int64_t start, count, rounded;  // elements
    const char *broadcast;
    const DeviceStep *steps;  // null: inline_steps
    int32_t step_count;
    int32_t registers_in_shared;
    int32_t per_thread;          // elements
    int32_t is_small;            // for the coordinates
    const int64_t *coordinates;  // null: inline_coordinates
    DeviceStep inline_steps[MAX_INLINE];
    int64_t inline_coordinates[MAX_COORDINATES];
};

class FusedKernel;

class Interpreter : public DeviceAlgorithm {
   public:
    // If it may not keep broadcast operands on the devices, staging spreads them out; if it may not turn
    // transposed ones there, staging does that, too.
    Interpreter(const Evaluation &evaluation, const plan::Operands &operands, Call &call,
                const std::vector<int> &devices, bool may_broadcast, bool may_transpose = false);

    void stage(const StreamedOperand &load, const Chunk &chunk, char *to) const override;
    void launch(const Chunk &chunk) override;
    void collect(const void *status) override;

    bool has_memory = false;  // for what it keeps on the devices

   protected:
    // Whether a chunk's elements of an operand that the program loads lie side by side.
    bool has_dense(int operand) const;
    // Where those lie, or the values that the program stores to an operand without an address.
    char *dense(const Chunk &chunk, int operand) const;

   private:
    // The operands of a program by the way that they go.
    struct OperandClasses {
        std::vector<StreamedOperand> loads, stores, values, transposed;
        std::vector<int> broadcast;
        int64_t scratch_bytes = 0, values_bytes = 0;  // of an element: all, and of these the values
        OperandClasses(const Evaluation &evaluation, const plan::Operands &operands, bool may_broadcast,
                       bool may_transpose, int block);
    };
    Interpreter(const Evaluation &evaluation, const plan::Operands &operands, Call &call,
                const std::vector<int> &devices, OperandClasses classes, int block);

    void set_source(DeviceStep &load, const std::vector<int> &broadcast, UnravelTable &coordinates);
    void add_stores(const DeviceStep &store, UnravelTable &coordinates);
    void transpose(const Chunk &chunk) const;
    bool launch_compiled(const InterpreterParams &call, cudaStream_t stream) const;

    const Evaluation evaluation_;
    const plan::Operands &operands_;
    Call &call_;
    const int block_;
    const std::vector<StreamedOperand> values_;  // that stay in the scratch
    const int64_t values_bytes_;
    const std::vector<StreamedOperand>
        transposed_;  // loads, as they lie there when the device has turned them
    std::vector<DeviceStep> steps_;
    BroadcastBuffers broadcasts_;
    int64_t steps_at_ = -1, coordinates_at_ = -1;  // where they are resident
    InterpreterParams common_{};
    std::shared_ptr<FusedKernel> fused_kernel_;  // in a plan, if its steps may be compiled
};

// Calls run(work) for work that keeps broadcast operands on the devices, or, without room for them, does not.
template <class Kind, class Run, class... Args>
void with_broadcast_fallback(const Evaluation &evaluation, Call &call, const std::vector<int> &devices,
                             Run run, Args &&...args) {
    plan::Operands operands(evaluation.layout, evaluation.program, call, devices);
    for (const bool may_broadcast : {true, false}) {
        Kind algorithm(evaluation, operands, call, devices, may_broadcast, args...);
        if (!algorithm.has_memory) continue;
        run(algorithm);
        return operands.commit();
    }
    fail(PK_OUT_OF_MEMORY, "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left for a program");
}

}  // namespace pk
