// The interpreter kernel: each thread runs the whole program, step by step, over a few elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/visit_type.h"
#include "interpreter.h"
#include "strided_access.cuh"
#include "value.cuh"

namespace pk {

namespace device {

constexpr int MAX_THREADS = 1024;
constexpr int MAX_REGISTERS = 16;
constexpr int SHARED_BYTES = 48 << 10;

// The number of a program's registers that fit in shared memory, and of elements that a thread then computes
// at once.
inline int registers_in_shared(int registers, int block) {
    return std::min({registers, MAX_REGISTERS, SHARED_BYTES / (8 * block)});
}
inline int elements_per_thread(int in_shared, int block) {
    return std::min(8, SHARED_BYTES / (8 * block * std::max(1, in_shared)));
}

// One thread's view of the program's registers for its elements. A register is 8 bytes in shared memory or,
// if spilled, in the chunk's scratch. It holds a value in the type of visit_computed_type(), not in its
// stored dtype.
struct Registers {
    uint64_t *shared;
    uint64_t *spilled;
    int64_t count;
    int in_shared, per_thread;

    __device__ uint64_t &at(int index, int e, int64_t element) const {
        if (index < in_shared) return shared[(index * per_thread + e) * int(blockDim.x) + threadIdx.x];
        return spilled[(index - in_shared) * count + element];
    }
    template <class T>
    __device__ T get(int index, int e, int64_t element) const {
        T value;
        memcpy(&value, &at(index, e, element), sizeof(value));
        return value;
    }
    template <class T>
    __device__ void set(int index, int e, int64_t element, T value) const {
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof(value));
        at(index, e, element) = bits;
    }
};

// The parameters, the registers and the elements of one thread, which every step needs.
struct Context {
    const InterpreterParams &call;
    const Registers &registers;
    int64_t first;  // the thread's elements are first, first + blockDim.x, ...

    // Call body(e, element) for each of the thread's elements.
    template <class Body>
    __device__ void each(Body body) const {
#pragma unroll 1
        for (int e = 0; e < call.per_thread; ++e) {
            const int64_t element = first + int64_t(e) * blockDim.x;
            if (element < call.count) body(e, element);
        }
    }

    // Add exception flags to those of a step's instruction.
    __device__ void report(const DeviceStep &step, unsigned exceptions) const {
        if (exceptions == 0) return;
        unsigned *word = reinterpret_cast<unsigned *>(call.memory) + step.origin;
        if ((*static_cast<volatile unsigned *>(word) & exceptions) != exceptions) atomicOr(word, exceptions);
    }

    // Return the address of the first element of a step's operand, which is dense.
    template <class T>
    __device__ T *dense(const DeviceStep &step, int32_t source) const {
        if (source == int32_t(Source::resident)) return reinterpret_cast<T *>(step.value) + call.start;
        return reinterpret_cast<T *>(call.memory + call.operands + call.rounded * step.value);
    }
};

__device__ inline bool is_dense(int32_t source) {
    return source == int32_t(Source::chunk) || source == int32_t(Source::resident);
}

__device__ inline void load(const Context &context, const DeviceStep &step) {
    visit_stored_type(step.type, [&](auto stored) {
        using T = decltype(stored);
        auto set = [&](int e, int64_t element, T value) {
            context.registers.set(step.target, e, element, widen(value));
        };
        if (is_dense(step.a)) {
            const T *from = context.dense<const T>(step, step.a);
            context.each([&](int e, int64_t element) { set(e, element, from[element]); });
        } else if (step.a == int(Source::resident_strided)) {
            const StridedAccess access(context.call, step);
            context.each([&](int e, int64_t element) { set(e, element, access.at<const T>(element)); });
        } else if (step.a == int(Source::constant)) {
            T value;
            memcpy(&value, &step.value, sizeof(value));
            context.each([&](int e, int64_t element) { set(e, element, value); });
        } else {
            const auto *table = reinterpret_cast<const int64_t *>(context.call.broadcast + step.value);
            const auto *from =
                reinterpret_cast<const T *>(context.call.broadcast + step.value + elements_offset(*table));
            context.each([&](int e, int64_t element) {
                set(e, element, from[broadcast_index(table, context.call.start + element)]);
            });
        }
    });
}

// Run two successive loads of dense operands of one dtype together, so that zero-copy operands cost the
// link's latency once. Return false if the steps are not two such loads.
__device__ inline bool load_both(const Context &context, const DeviceStep &step, const DeviceStep &next) {
    if (next.op != PK_OP_LOAD || !is_dense(step.a) || !is_dense(next.a) || step.type != next.type)
        return false;
    visit_stored_type(step.type, [&](auto stored) {
        using T = decltype(stored);
        const T *from = context.dense<const T>(step, step.a);
        const T *next_from = context.dense<const T>(next, next.a);
        context.each([&](int e, int64_t element) {
            const T first = from[element], second = next_from[element];
            context.registers.set(step.target, e, element, widen(first));
            context.registers.set(next.target, e, element, widen(second));
        });
    });
    return true;
}

__device__ inline void store(const Context &context, const DeviceStep &step) {
    visit_computed_type(step.type, [&](auto computed) {
        using From = decltype(computed);
        visit_stored_type(step.type, [&](auto stored) {
            using T = decltype(stored);
            if constexpr (std::is_same<decltype(widen(stored)), From>::value) {
                auto value = [&](int e, int64_t element) {
                    return narrow<T>(context.registers.get<From>(step.a, e, element));
                };
                if (is_dense(step.b)) {
                    T *to = context.dense<T>(step, step.b);
                    context.each([&](int e, int64_t element) { to[element] = value(e, element); });
                } else {
                    const StridedAccess access(context.call, step);
                    context.each([&](int e, int64_t element) { access.at<T>(element) = value(e, element); });
                }
            }
        });
    });
}

__device__ inline void cast(const Context &context, const DeviceStep &step) {
    visit_computed_type(step.type, [&](auto computed) {
        using From = decltype(computed);
        visit_stored_type(step.to, [&](auto stored) {
            unsigned exceptions = 0;
            context.each([&](int e, int64_t element) {
                const From value = context.registers.get<From>(step.a, e, element);
                context.registers.set(step.target, e, element, cast_to<decltype(stored)>(value, exceptions));
            });
            context.report(step, exceptions);
        });
    });
}

template <class Op, class T>
__device__ void operate(const Context &context, const DeviceStep &step) {
    unsigned exceptions = 0;
    context.each([&](int e, int64_t element) {
        const Registers &registers = context.registers;
        if constexpr (Op::arity == 3) {
            const auto condition = uint8_t(registers.get<uint32_t>(step.a, e, element));
            const T b = registers.get<T>(step.b, e, element), c = registers.get<T>(step.c, e, element);
            registers.set(step.target, e, element, T(Op::apply(condition, b, c)));
        } else {
            const T a = registers.get<T>(step.a, e, element);
            T b = a;
            if constexpr (Op::arity == 2) b = registers.get<T>(step.b, e, element);
            registers.set(step.target, e, element, applied<Op>(step.type, a, b, exceptions));
        }
    });
    context.report(step, exceptions);
}

// Sets of dtypes, as bits: those that are computed in each 32-bit type.
constexpr uint32_t SIGNED_32 = 1u << PK_INT8 | 1u << PK_INT16 | 1u << PK_INT32;
constexpr uint32_t UNSIGNED_32 = 1u << PK_BOOL | 1u << PK_UINT8 | 1u << PK_UINT16 | 1u << PK_UINT32;
constexpr uint32_t FLOAT_32 = 1u << PK_FLOAT16 | 1u << PK_FLOAT32;

template <class T>
constexpr uint32_t types_of_class = std::is_same<T, int32_t>::value    ? SIGNED_32
                                    : std::is_same<T, uint32_t>::value ? UNSIGNED_32
                                    : std::is_same<T, int64_t>::value  ? 1u << PK_INT64
                                    : std::is_same<T, uint64_t>::value ? 1u << PK_UINT64
                                    : std::is_same<T, float>::value    ? FLOAT_32
                                                                       : 1u << PK_FLOAT64;

template <class Op>
__device__ void operate_on(const Context &context, const DeviceStep &step) {
    visit_computed_type(step.type, [&](auto value) {
        using T = decltype(value);
        if constexpr ((Op::types & types_of_class<T>) != 0) operate<Op, T>(context, step);
    });
}

// The interpreter kernel: runs the steps one after the other, each for all elements of the thread.
__global__ void __launch_bounds__(MAX_THREADS) interpret(const __grid_constant__ InterpreterParams call) {
    extern __shared__ uint64_t shared[];
    const Registers registers{shared, reinterpret_cast<uint64_t *>(call.memory + call.scratch), call.count,
                              call.registers_in_shared, call.per_thread};
    const Context context{call, registers, int64_t(blockIdx.x) * blockDim.x * call.per_thread + threadIdx.x};
    const DeviceStep *steps = call.steps == nullptr ? call.inline_steps : call.steps;
#pragma unroll 1
    for (int32_t i = 0; i < call.step_count; ++i) {
        const DeviceStep step = steps[i];
        switch (step.op) {
            case PK_OP_LOAD:
                if (i + 1 < call.step_count && load_both(context, step, steps[i + 1])) {
                    ++i;
                } else {
                    load(context, step);
                }
                break;
            case PK_OP_STORE: store(context, step); break;
            case PK_OP_CAST: cast(context, step); break;
#define PK_OP(name) \
    case ops::op_##name: operate_on<ops::name>(context, step); break;
#include "ops.def"
            default: break;
        }
    }
}

}  // namespace device
}  // namespace pk
