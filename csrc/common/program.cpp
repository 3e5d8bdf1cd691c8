// Checks an elementwise program, and allocates its registers.
#include "program.h"

#include <string>

#include "common/call/status.h"
#include "operations.h"

namespace pk {

namespace {

struct Signature {
    int arity;
    uint32_t types;
    bool returns_bool;
};

const Signature signatures[] = {
#define PK_OP(name) {ops::name::arity, ops::name::types, ops::name::returns_bool},
#include "ops.def"
};

[[noreturn]] void reject(int64_t instruction, const std::string &reason) {
    fail(PK_INVALID_ARGUMENT, "instruction " + std::to_string(instruction) + " " + reason);
}

constexpr int NO_VALUE = -1;

// The types of the values so far, and the last instruction that uses each.
struct Values {
    std::vector<int> types;
    std::vector<int64_t> last_use;

    explicit Values(int64_t most) {
        types.reserve(size_t(most));
        last_use.reserve(size_t(most));
    }

    void use(int64_t instruction, int32_t value, int type) {
        if (value < 0 || value >= int64_t(types.size()) || types[value] == NO_VALUE) {
            reject(instruction, "uses a value that is not defined before it");
        }
        if (types[value] != type) reject(instruction, "uses a value of another type than its own");
        last_use[value] = instruction;
    }
    void define(int64_t instruction, int type) {
        types.push_back(type);
        last_use.push_back(instruction);
    }
};

// Registers that are free for the next value. A result never gets the register of an argument of its own
// instruction: loops over blocks read and write elements of different sizes.
struct Registers {
    std::vector<int32_t> free;
    int32_t count = 0;

    int32_t take() {
        if (free.empty()) return count++;
        const int32_t taken = free.back();
        free.pop_back();
        return taken;
    }
};

// Checks an instruction, the i-th of a program, and notes its value, those that it uses, and the operand that
// it stores to.
void check(int64_t i, const pk_instruction &in, const pk_operand *operands, int64_t operand_count,
           std::vector<bool> &stored, Values &values) {
    if (in.type >= PK_TYPE_COUNT || in.to >= PK_TYPE_COUNT) reject(i, "has an unknown type");
    if (in.op == PK_OP_LOAD || in.op == PK_OP_STORE) {
        const int32_t operand = in.op == PK_OP_LOAD ? in.a : in.b;
        if (operand < 0 || operand >= operand_count) reject(i, "names an operand that there is not");
        if (operands[operand].type != in.type) reject(i, "has another type than its operand");
        if (in.op == PK_OP_LOAD) {
            if (stored[operand]) reject(i, "loads an operand after it was stored to");
        } else {
            if (stored[operand]) reject(i, "stores to an operand a second time");
            stored[operand] = true;
            values.use(i, in.a, in.type);
        }
        values.define(i, in.op == PK_OP_LOAD ? in.type : NO_VALUE);
    } else if (in.op == PK_OP_CAST) {
        values.use(i, in.a, in.type);
        values.define(i, in.to);
    } else if (in.op < PK_OP_FIRST + ops::count) {
        const Signature &signature = signatures[in.op - PK_OP_FIRST];
        if ((signature.types >> in.type & 1u) == 0) reject(i, "has a type that its operation does not take");
        values.use(i, in.a, signature.arity == 3 ? int(PK_BOOL) : int(in.type));
        if (signature.arity >= 2) values.use(i, in.b, in.type);
        if (signature.arity == 3) values.use(i, in.c, in.type);
        values.define(i, signature.returns_bool ? int(PK_BOOL) : int(in.type));
    } else {
        reject(i, "has an unknown opcode");
    }
}

}  // namespace

void check_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const uint8_t *exceptions, const pk_report *report) {
    require(instruction_count >= 1 && instruction_count <= PK_MAX_INSTRUCTIONS,
            "instruction_count is not from 1 to PK_MAX_INSTRUCTIONS");
    require(operand_count >= 1 && operand_count <= PK_MAX_OPERANDS,
            "operand_count is not from 1 to PK_MAX_OPERANDS");
    require(dimensions >= 0 && dimensions <= PK_MAX_DIMS, "dimensions is not from 0 to PK_MAX_DIMS");
    require(program != nullptr, "program is a null pointer");
    require(operands != nullptr, "operands is a null pointer");
    require(shape != nullptr || dimensions == 0, "shape is a null pointer");
    require(exceptions != nullptr, "exceptions is a null pointer");
    require(report != nullptr, "report is a null pointer");
}

bool is_widening_of_half(int from, int to) { return from == PK_FLOAT16 && to == PK_FLOAT32; }

Program::Program(const pk_instruction *instructions, int64_t instruction_count, const pk_operand *operands,
                 int64_t operand_count)
    : stored(size_t(operand_count), false) {
    for (int64_t i = 0; i < operand_count; ++i) {
        if (operands[i].type < 0 || operands[i].type >= PK_TYPE_COUNT) {
            fail(PK_INVALID_ARGUMENT, "operand " + std::to_string(i) + " has an unknown type");
        }
    }
    Values values(instruction_count);
    for (int64_t i = 0; i < instruction_count; ++i)
        check(i, instructions[i], operands, operand_count, stored, values);

    steps.reserve(size_t(instruction_count));
    Registers registers;
    std::vector<int32_t> register_of(size_t(instruction_count), NO_VALUE);
    // Frees a value's register after its last use, or after its definition if it has none. Both arguments may
    // be the same value.
    auto use = [&](int64_t instruction, int32_t value) {
        int64_t &last_use = values.last_use[value];
        if (last_use == instruction && register_of[value] != NO_VALUE)
            registers.free.push_back(register_of[value]);
        if (last_use == instruction) last_use = NO_VALUE;
        return register_of[value];
    };
    for (int64_t i = 0; i < instruction_count; ++i) {
        const pk_instruction &in = instructions[i];
        Step step{in.op, in.type, in.to, NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE, int32_t(i)};
        if (values.types[i] != NO_VALUE) step.target = register_of[i] = registers.take();
        if (in.op == PK_OP_LOAD) {
            step.a = in.a;
            step.to = in.type;
        } else if (in.op == PK_OP_STORE) {
            step.a = use(i, in.a);
            step.target = in.b;
            step.to = in.type;
        } else {
            const int arity = in.op == PK_OP_CAST ? 1 : signatures[in.op - PK_OP_FIRST].arity;
            step.a = use(i, in.a);
            if (arity >= 2) step.b = use(i, in.b);
            if (arity == 3) step.c = use(i, in.c);
            step.to = uint8_t(values.types[i]);
        }
        use(i, int32_t(i));
        steps.push_back(step);
    }
    register_count = registers.count;
}

}  // namespace pk
