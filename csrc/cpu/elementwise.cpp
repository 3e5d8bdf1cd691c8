#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "../common/status.h"
#include "../common/thread_pool.h"
#include "machine.h"

namespace pk {

// A thread is woken for no less than this many elements times steps. It takes this many bytes of the widest
// operand at once: smaller shares have two threads wait for each other in the first touch of one huge page.
static constexpr int64_t WORTH_A_THREAD = 32 << 10;
static constexpr int64_t SHARE_BYTES = 4 << 20;

static void evaluate(const Program &program, const Layout &layout, int64_t instruction_count,
                     uint8_t *exceptions, pk_report &report) {
    const Plan plan(program, layout);
    const int64_t size = layout.size;
    const int64_t worth = size * int64_t(plan.steps.size()) / WORTH_A_THREAD;
    const int64_t threads = std::clamp<int64_t>(worth, 1, thread_count());
    const int64_t fair = (size + threads - 1) / threads;
    int64_t widest = 1;
    for (const View &view : layout.views) widest = std::max(widest, view.item);
    const int64_t share = (std::min(fair, SHARE_BYTES / widest) + plan.block - 1) / plan.block * plan.block;

    std::atomic<int64_t> next{0};
    std::mutex merge;
    report.threads = run_on_threads(threads, [&] {
        int64_t start = next.fetch_add(share);
        if (start >= size) return;
        const DefaultFloatingPoint environment;
        Machine machine(plan, instruction_count);
        for (; start < size; start = next.fetch_add(share)) machine.run(start, std::min(share, size - start));
        std::lock_guard<std::mutex> lock(merge);
        for (int64_t i = 0; i < instruction_count; ++i) {
            exceptions[i] |= machine.exceptions()[i];
            report.exceptions |= machine.exceptions()[i];
        }
    });
    report.chunks = (size + share - 1) / share;
}

}  // namespace pk

int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                    pk_report *report) {
    return pk::guarded([&] {
        const auto begin = std::chrono::steady_clock::now();
        pk::check_evaluate(program, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                           report);
        const pk::Program checked(program, instruction_count, operands, operand_count);
        const pk::Layout layout(operands, operand_count, shape, dimensions, checked.stored);
        std::fill_n(exceptions, instruction_count, uint8_t(0));
        *report = pk_report{};
        if (layout.size != 0) pk::evaluate(checked, layout, instruction_count, exceptions, *report);
        report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
}
