// Stress test of the ABI from many threads, for ThreadSanitizer: valid programs, whose results are checked
// element by element, and invalid ones, whose messages must be the calling thread's own. Returns 0 if all is
// right, else 1.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pycudakit.h"

namespace {

std::atomic<int> mismatches{0};

void expect(bool holds, const char *condition, int thread, int round) {
    if (holds || mismatches.fetch_add(1) > 20) return;
    const char *message = "";
    pk_last_error(&message);
    std::fprintf(stderr, "thread %d, round %d: %s (last error: %s)\n", thread, round, condition, message);
}

uint16_t opcode_of(const char *name) {
    int64_t count = 0;
    pk_operation operation;
    pk_operation_count(&count);
    for (int64_t i = 0; i < count; ++i) {
        if (pk_operation_info(i, &operation) == PK_OK && std::strcmp(operation.name, name) == 0) {
            return uint16_t(PK_OP_FIRST + i);
        }
    }
    std::fprintf(stderr, "there is no operation %s\n", name);
    std::exit(1);
}

template <class T>
pk_operand operand_of(std::vector<T> &array, pk_type type, int64_t step = 1) {
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(array.data());
    operand.type = type;
    operand.strides[0] = step * int64_t(sizeof(T));
    return operand;
}

int32_t evaluate(const std::vector<pk_instruction> &program, const std::vector<pk_operand> &operands,
                 int64_t size, std::vector<uint8_t> &met) {
    pk_report report;
    met.assign(program.size(), 0);
    return pk_evaluate(program.data(), int64_t(program.size()), operands.data(), int64_t(operands.size()),
                       &size, 1, nullptr, met.data(), &report);
}

// out = (a op b) + a, on every second int64.
void integers(uint16_t op, uint16_t add, int thread, int round) {
    const int64_t size = 1000 + 7919 * ((thread + round) % 23);
    std::vector<int64_t> a(size_t(2 * size)), b{thread + 3}, out(size_t(size), -1);
    for (int64_t i = 0; i < 2 * size; ++i) a[size_t(i)] = i * (round + 1);
    const std::vector<pk_instruction> program = {
        {PK_OP_LOAD, PK_INT64, PK_INT64, 0, 0, 0},  {PK_OP_LOAD, PK_INT64, PK_INT64, 1, 0, 0},
        {op, PK_INT64, PK_INT64, 0, 1, 0},          {add, PK_INT64, PK_INT64, 2, 0, 0},
        {PK_OP_STORE, PK_INT64, PK_INT64, 3, 2, 0},
    };
    std::vector<uint8_t> met;
    const int32_t status =
        evaluate(program, {operand_of(a, PK_INT64, 2), operand_of(b, PK_INT64, 0), operand_of(out, PK_INT64)},
                 size, met);
    expect(status == PK_OK, "a valid program of integers failed", thread, round);
    bool same = true;
    for (int64_t i = 0; i < size; ++i) {
        const int64_t x = a[size_t(2 * i)];
        same &= out[size_t(i)] == (op == add ? x + b[0] : x * b[0]) + x;
    }
    expect(same, "integers are wrong", thread, round);
}

// out = a / b in float, in place; odd threads divide by zero.
void floats(uint16_t divide, int thread, int round) {
    const int64_t size = 300000 + 4099 * round;
    std::vector<float> a(static_cast<size_t>(size)), b(static_cast<size_t>(size), 4.0f);
    for (int64_t i = 0; i < size; ++i) a[size_t(i)] = float(i % 1000 + 1 + thread);
    if (thread % 2 != 0) b[size_t(size / 2)] = 0.0f;
    const std::vector<pk_instruction> program = {
        {PK_OP_LOAD, PK_FLOAT32, PK_FLOAT32, 0, 0, 0},
        {PK_OP_LOAD, PK_FLOAT32, PK_FLOAT32, 1, 0, 0},
        {divide, PK_FLOAT32, PK_FLOAT32, 0, 1, 0},
        {PK_OP_STORE, PK_FLOAT32, PK_FLOAT32, 2, 0, 0},
    };
    std::vector<uint8_t> met;
    const int32_t status =
        evaluate(program, {operand_of(a, PK_FLOAT32), operand_of(b, PK_FLOAT32)}, size, met);
    expect(status == PK_OK, "a valid program of floats failed", thread, round);
    expect(met.size() == 4 && met[2] == (thread % 2 != 0 ? PK_FPE_DIVIDE_BY_ZERO : 0), "exceptions are wrong",
           thread, round);
    bool same = true;
    for (int64_t i = 0; i < size; ++i) same &= a[size_t(i)] == float(i % 1000 + 1 + thread) / b[size_t(i)];
    expect(same, "floats are wrong", thread, round);
}

pk_block_program pass_of(const std::vector<pk_instruction> &program, const std::vector<pk_operand> &operands,
                         const std::vector<int64_t> &shape, const std::vector<int64_t> &moves,
                         std::vector<uint8_t> &met) {
    pk_block_program pass{};
    pass.program = reinterpret_cast<uint64_t>(program.data());
    pass.operands = reinterpret_cast<uint64_t>(operands.data());
    pass.shape = reinterpret_cast<uint64_t>(shape.data());
    pass.instruction_count = int64_t(program.size());
    pass.operand_count = int64_t(operands.size());
    pass.dimensions = int64_t(shape.size());
    pass.block_strides = reinterpret_cast<uint64_t>(moves.data());
    met.assign(program.size(), 0);
    pass.exceptions = reinterpret_cast<uint64_t>(met.data());
    return pass;
}

// Sums of the squares of rows by pk_run_blocks, with the squares of a block of four rows in scratch.
void blocks(uint16_t multiply, int thread, int round) {
    const int64_t rows = 4, length = 500 + 37 * thread, count = 100 + round;
    std::vector<double> x(size_t(rows * length * count)), sums(size_t(rows * count), -1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = double(i % 1009 + size_t(thread));
    const int64_t row = length * int64_t(sizeof(double));
    pk_operand in = operand_of(x, PK_FLOAT64), kept{}, values{}, out = operand_of(sums, PK_FLOAT64);
    kept.type = values.type = PK_FLOAT64;
    kept.flags = PK_OPERAND_IN_SCRATCH;
    for (pk_operand *each : {&in, &kept, &values}) {
        each->strides[0] = row;
        each->strides[1] = int64_t(sizeof(double));
    }
    const std::vector<pk_operand> squared = {in, kept}, summed = {kept, values, out};
    const pk_instruction load = {PK_OP_LOAD, PK_FLOAT64, PK_FLOAT64, 0, 0, 0};
    const std::vector<pk_instruction> square = {
        load, {multiply, PK_FLOAT64, PK_FLOAT64, 0, 0, 0}, {PK_OP_STORE, PK_FLOAT64, PK_FLOAT64, 1, 1, 0}};
    const std::vector<pk_instruction> all = {load, {PK_OP_STORE, PK_FLOAT64, PK_FLOAT64, 0, 1, 0}};
    const std::vector<int64_t> shape = {rows, length}, rows_on = {rows * row, 0};
    const std::vector<int64_t> sums_on = {0, 0, rows * int64_t(sizeof(double))};
    pk_reduction sum{};
    sum.kind = PK_REDUCE_SUM;
    sum.outer = sum.reduced = sum.value_count = 1;
    std::vector<uint8_t> met[2];
    pk_block_program passes[] = {pass_of(square, squared, shape, rows_on, met[0]),
                                 pass_of(all, summed, shape, sums_on, met[1])};
    passes[1].reductions = reinterpret_cast<uint64_t>(&sum);
    passes[1].reduction_count = 1;
    pk_report report;
    expect(pk_run_blocks(passes, 2, count, rows * row, nullptr, &report) == PK_OK, "valid passes failed",
           thread, round);
    bool same = true;
    for (size_t i = 0; i < sums.size(); ++i) {
        double exact = 0;  // of integers
        for (size_t j = i * size_t(length); j < (i + 1) * size_t(length); ++j) exact += x[j] * x[j];
        same &= sums[i] == exact;
    }
    expect(same, "sums of blocks are wrong", thread, round);
}

// A list of requests: out = x * x, and number = sum(out), twice.
struct List {
    List(uint16_t multiply, int64_t length, std::array<uint64_t, 2> list_key)
        : x(size_t(length)), out(size_t(length)), shape{length}, key(list_key) {
        const pk_instruction load = {PK_OP_LOAD, PK_FLOAT64, PK_FLOAT64, 0, 0, 0};
        square = {load,
                  {multiply, PK_FLOAT64, PK_FLOAT64, 0, 0, 0},
                  {PK_OP_STORE, PK_FLOAT64, PK_FLOAT64, 1, 1, 0}};
        all = {load, {PK_OP_STORE, PK_FLOAT64, PK_FLOAT64, 0, 1, 0}};
        squared = {operand_of(x, PK_FLOAT64), operand_of(out, PK_FLOAT64)};
        summed = {operand_of(out, PK_FLOAT64), operand_of(out, PK_FLOAT64), operand_of(number, PK_FLOAT64)};
        summed[1].address = 0;
        sum.kind = PK_REDUCE_SUM;
        sum.reduced = sum.value_count = 1;
        requests[0] = {PK_REQUEST_EVALUATE,
                       {word(square.data()), square.size(), word(squared.data()), squared.size(),
                        word(shape.data()), 1, word(met.data())}};
        requests[1] = {PK_REQUEST_REDUCE,
                       {word(&sum), word(all.data()), all.size(), word(summed.data()), summed.size(),
                        word(shape.data()), 1, word(met.data())}};
        bindings = {pk_binding{word(&squared[0].address), 0, 0}, pk_binding{word(&squared[1].address), 1, 0},
                    pk_binding{word(&summed[0].address), 1, 0}, pk_binding{word(&summed[2].address), 2, 0}};
    }
    List(const List &) = delete;  // its requests have the addresses of its tables
    List &operator=(const List &) = delete;

    // Runs the list on new values in new memory.
    void run(int thread, int round) {
        std::vector<double> values(x.size()), squares(x.size(), -1), total{-1};
        double exact = 0;  // of integers
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = double((i + size_t(round)) % 1009 + size_t(thread));
            exact += values[i] * values[i];
        }
        x.swap(values), out.swap(squares), number.swap(total);
        const std::array<pk_buffer, 3> buffers = {buffer_of(x, PK_BUFFER_UPLOAD),
                                                  buffer_of(out, PK_BUFFER_DOWNLOAD),
                                                  buffer_of(number, PK_BUFFER_DOWNLOAD)};
        const std::array<int32_t, 4> order = {0, 1, 0, 1};
        int64_t completed = -1;
        pk_report report;
        const int32_t status =
            pk_run_requests(requests.data(), 2, order.data(), 4, bindings.data(), 4, buffers.data(), 3,
                            nullptr, 0, key.data(), &completed, nullptr, &report);
        expect(status == PK_OK && completed == 4, "a valid list failed", thread, round);
        bool same = number[0] == exact;
        for (size_t i = 0; i < x.size(); ++i) same &= out[i] == x[i] * x[i];
        expect(same, "results of a list are wrong", thread, round);
    }

   private:
    static uint64_t word(const void *address) { return reinterpret_cast<uint64_t>(address); }
    static pk_buffer buffer_of(std::vector<double> &array, int32_t flags) {
        pk_buffer buffer{};
        buffer.address = word(array.data());
        buffer.bytes = int64_t(array.size() * sizeof(double));
        buffer.flags = flags;
        return buffer;
    }

    std::vector<double> x, out, number{0};
    std::vector<int64_t> shape;
    std::array<uint64_t, 2> key;
    std::vector<pk_instruction> square, all;
    std::vector<pk_operand> squared, summed;
    pk_reduction sum{};
    std::array<uint8_t, 3> met{};
    std::array<pk_request, 2> requests{};
    std::array<pk_binding, 4> bindings{};
};

// Lists of requests: one that all threads run in turn, one whose key two threads share, each with tables of
// its own, and one with a key of this thread's own.
void lists(uint16_t multiply, int thread, int round) {
    static std::mutex mutex;
    static List in_turn(multiply, 3000, {1, 1});
    {
        const std::lock_guard<std::mutex> lock(mutex);
        in_turn.run(thread, round);
    }
    List of_two(multiply, 2000, {2, uint64_t(thread / 2)}),
        own(multiply, 1000 + thread, {3, uint64_t(thread)});
    for (int turn = 0; turn < 3; ++turn) {
        of_two.run(thread, round + turn);
        own.run(thread, round + turn);
    }
    if (round % 4 == 3) expect(pk_release() == PK_OK, "pk_release failed", thread, round);
}

// An invalid program, whose message names an instruction of this thread's own, and pk_fail.
void failures(int thread, int round) {
    std::vector<double> out(64, 1.5);
    std::vector<pk_instruction> program(size_t(thread + 1), {PK_OP_LOAD, PK_FLOAT64, PK_FLOAT64, 0, 0, 0});
    program.push_back({PK_OP_STORE, PK_FLOAT64, PK_FLOAT64, 1 << 20, 0, 0});
    std::vector<uint8_t> met;
    const int32_t status = evaluate(program, {operand_of(out, PK_FLOAT64)}, 64, met);
    expect(status == PK_INVALID_ARGUMENT, "an invalid program was not refused", thread, round);
    std::this_thread::yield();
    const char *message = "";
    pk_last_error(&message);
    const std::string expected = "instruction " + std::to_string(thread + 1) + " ";
    expect(std::strncmp(message, expected.c_str(), expected.size()) == 0, "another thread's message", thread,
           round);
    for (double x : out) expect(x == 1.5, "a refused program wrote", thread, round);

    const int32_t wanted = PK_NO_DEVICE + (thread + round) % 5;
    expect(pk_fail(wanted) == wanted, "another status than asked for", thread, round);
    std::this_thread::yield();
    pk_last_error(&message);
    expect(std::strstr(message, std::to_string(wanted).c_str()) != nullptr, "another failure's message",
           thread, round);
}

}  // namespace

int main(int argc, char **argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 12;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
    const uint16_t add = opcode_of("add"), multiply = opcode_of("multiply"), divide = opcode_of("divide");
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread) {
        running.emplace_back([=] {
            for (int round = 0; round < rounds; ++round) {
                integers(thread % 3 == 0 ? add : multiply, add, thread, round);
                floats(divide, thread, round);
                blocks(multiply, thread, round);
                lists(multiply, thread, round);
                failures(thread, round);
            }
        });
    }
    for (std::thread &thread : running) thread.join();
    if (mismatches == 0) std::printf("%d threads, %d rounds: all exact\n", threads, rounds);
    return mismatches == 0 ? 0 : 1;
}
