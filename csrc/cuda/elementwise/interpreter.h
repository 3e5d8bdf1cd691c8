// The program interpreter as a pipeline algorithm: it runs an elementwise program over the elements of each
// chunk.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/elementwise.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/execute.h"

namespace pk {

// Where a load reads its elements, or a store writes them.
enum class Source : int32_t {
    chunk,             // in the chunk's memory; `value` is the bytes an element that precede the operand
    broadcast,         // in the BroadcastBuffers at offset `value`, with `c` dimensions
    constant,          // in `value` itself
    resident,          // device-resident and contiguous, from the address `value` on
    resident_strided,  // device-resident from the address `value` on; `c` is its strides' place in
                       // UnravelTable
};

// One step of a program, as the kernel reads it.
struct DeviceStep {
    uint16_t op;
    uint8_t type;
    uint8_t to;
    int32_t target, a, b, c;  // registers; of a load, `a` is a Source, of a store, `b`
    int32_t origin;           // the instruction that exceptions are reported for
    int64_t value;
};

// The table from which kernels compute an element's coordinates and, from these, its byte offset in each
// strided operand:
//   dims | size and divisor of each dimension, the last one first | for each operand dims strides in bytes
// With fewer than 2^31 elements a division is a multiplication (FastDivisor).
class UnravelTable {
   public:
    static constexpr int64_t MAX_SMALL = (int64_t(1) << 31) - 1;
    explicit UnravelTable(const Layout &layout) : layout_(layout) {}

    // Add an operand's strides, and return where they begin.
    int32_t add(const View &view);
    // Return the table; it is empty if no operand needs it.
    const std::vector<int64_t> &table() const { return table_; }

   private:
    void begin();

    const Layout &layout_;
    std::vector<int64_t> table_;
};

// The kernel's parameters. Short programs are passed inline, long ones are in device memory.
struct InterpreterParams {
    static constexpr int MAX_INLINE = 48, MAX_COORDINATES = 96;

    char *memory;
    int64_t operands, scratch;      // offsets in `memory`
    int64_t start, count, rounded;  // elements
    const char *broadcast;
    const DeviceStep *steps;  // null: inline_steps
    int32_t step_count;
    int32_t registers_in_shared;
    int32_t per_thread;          // elements
    int32_t is_small;            // fewer than 2^31 elements
    const int64_t *coordinates;  // null: inline_coordinates
    DeviceStep inline_steps[MAX_INLINE];
    int64_t inline_coordinates[MAX_COORDINATES];
};

class FusedKernel;

// Runs a program on the device, chunk by chunk: by the fused kernel if it is compiled, else by the
// interpreter kernel.
class Interpreter : public DeviceAlgorithm {
   public:
    // With `may_broadcast`, broadcast operands are uploaded once and kept on the devices; else staging
    // expands them. With `may_transpose`, the device transposes transposed operands; else staging does.
    Interpreter(const Evaluation &evaluation, const Operands &operands, Call &call,
                const ExecutionContext &context, bool may_broadcast, bool may_transpose = false);

    void stage(const StreamedOperand &load, const Chunk &chunk, char *to) const override;
    void enqueue(const Chunk &chunk) override;
    void collect(const void *status) override;

    bool has_memory = false;  // the devices have memory for broadcast operands and long programs

   protected:
    // Return true if a chunk's elements of a loaded operand are contiguous on the device.
    bool has_dense(int operand) const;
    // Return the address of those elements, or of the values that are stored to an operand without memory.
    char *dense(const Chunk &chunk, int operand) const;

   private:
    // The operands of a program, classified by how they reach the kernel.
    struct OperandClasses {
        std::vector<StreamedOperand> loads, stores, values, transposed;
        std::vector<int> broadcast;
        int64_t scratch_bytes = 0, values_bytes = 0;  // per element: all, and the values' part of it
        OperandClasses(const Evaluation &evaluation, const Operands &operands, bool may_broadcast,
                       bool may_transpose, int block);
    };
    Interpreter(const Evaluation &evaluation, const Operands &operands, Call &call,
                const ExecutionContext &context, OperandClasses classes, int block);

    void set_source(DeviceStep &load, const std::vector<int> &broadcast, UnravelTable &coordinates);
    void add_stores(const DeviceStep &store, UnravelTable &coordinates);
    void transpose(const Chunk &chunk) const;
    bool launch_compiled(const InterpreterParams &call, cudaStream_t stream) const;

    const Evaluation evaluation_;
    const Operands &operands_;
    Call &call_;
    const int block_;
    const std::vector<StreamedOperand> values_;  // stored to the chunk's scratch
    const int64_t values_bytes_;
    const std::vector<StreamedOperand> transposed_;  // loads that the device transposes into the scratch
    std::vector<DeviceStep> steps_;
    BroadcastBuffers broadcasts_;
    int64_t steps_at_ = -1, coordinates_at_ = -1;  // in broadcasts_; -1: passed inline
    InterpreterParams common_{};
    std::shared_ptr<FusedKernel> fused_kernel_;  // null: always interpreted
};

// Call run(algorithm, operands) with an algorithm that keeps broadcast operands on the devices or, if their
// memory is short, with one that stages them expanded.
template <class Kind, class Run, class... Args>
void with_broadcast_fallback(const Evaluation &evaluation, Call &call, const ExecutionContext &context,
                             Run run, Args &&...args) {
    Operands operands(evaluation.layout, evaluation.program, call, context);
    for (const bool may_broadcast : {true, false}) {
        Kind algorithm(evaluation, operands, call, context, may_broadcast, args...);
        if (!algorithm.has_memory) continue;
        run(algorithm, operands);
        return operands.commit();
    }
    fail_device_budget("a program");
}

}  // namespace pk
