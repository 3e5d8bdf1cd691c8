// pk_run_blocks: a thread runs all programs over one block after the other (loop tiling), so that
// intermediate results stay in its cache.
#include "common/blocks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/call/parallel_for.h"

namespace pk::blocks {

namespace {

// A program on one thread.
class ThreadProgram {
   public:
    ThreadProgram(const pk_block_program &pass, const char *scratch)
        : program_(pass),
          operands_(operands_of(pass, scratch)),
          raised_(size_t(pass.instruction_count)),
          exceptions_(size_t(pass.instruction_count), 0) {}

    void run(int64_t block, const Call &call) {
        const double begin = call.seconds();
        const auto *block_strides = at<int64_t>(program_.block_strides);
        for (size_t i = 0; i < operands_.size(); ++i)
            operands_[i].address += uint64_t((block - block_) * block_strides[i]);
        block_ = block;
        const int32_t status = program_.reduction_count == 0 ? evaluate() : reduce();
        if (status != PK_OK) fail(pk_status(status), last_error());
        for (size_t i = 0; i < raised_.size(); ++i) exceptions_[i] |= raised_[i];
        seconds_ += call.seconds() - begin;
    }

    // Adds the time and the exception flags to the report. For one thread at a time.
    void add_to_report(pk_block_program &pass, pk_report &report) const {
        pass.seconds += seconds_;
        for (size_t i = 0; i < raised_.size(); ++i) {
            at<uint8_t>(pass.exceptions)[i] |= exceptions_[i];
            report.exceptions |= exceptions_[i];
        }
    }

   private:
    int32_t evaluate() {
        pk_report report;
        return pk_evaluate(at<pk_instruction>(program_.program), program_.instruction_count, operands_.data(),
                           program_.operand_count, at<int64_t>(program_.shape), program_.dimensions, nullptr,
                           raised_.data(), &report);
    }

    int32_t reduce() {
        pk_report report;
        return pk_reduce_several(at<pk_reduction>(program_.reductions), program_.reduction_count,
                                 at<pk_instruction>(program_.program), program_.instruction_count,
                                 operands_.data(), program_.operand_count, at<int64_t>(program_.shape),
                                 program_.dimensions, raised_.data(), nullptr, &report);
    }

    const pk_block_program &program_;
    std::vector<pk_operand> operands_;
    std::vector<uint8_t> raised_, exceptions_;
    int64_t block_ = 0;  // the block that the operands point to
    double seconds_ = 0;
};

// A thread that runs all programs over some of the blocks.
class Worker {
   public:
    explicit Worker(const Request &request) : scratch_(new char[size_t(request.scratch_bytes + CACHE_LINE)]) {
        const auto misalignment = reinterpret_cast<uintptr_t>(scratch_.get()) % CACHE_LINE;
        for (int64_t i = 0; i < request.program_count; ++i)
            programs_.emplace_back(request.programs[i],
                                   scratch_.get() + (CACHE_LINE - misalignment) % CACHE_LINE);
    }

    void run(int64_t block, Call &call) {
        const SingleThreadScope alone;
        for (ThreadProgram &pass : programs_) pass.run(block, call);
        call.advance(1);
    }

    void add_to_report(const Request &request, pk_report &report) const {
        for (size_t i = 0; i < programs_.size(); ++i) programs_[i].add_to_report(request.programs[i], report);
    }

   private:
    static constexpr int64_t CACHE_LINE = 64;
    std::unique_ptr<char[]> scratch_;
    std::vector<ThreadProgram> programs_;
};

void launch(const Request &request, Call &call) {
    for (int64_t i = 0; i < request.program_count; ++i) {
        pk_block_program &pass = request.programs[i];
        pass.seconds = 0;
        std::fill_n(at<uint8_t>(pass.exceptions), pass.instruction_count, uint8_t(0));
    }
    parallel_for(
        call, request.blocks, 1, std::min(request.blocks, thread_count()), [&] { return Worker(request); },
        [&](Worker &worker, int64_t first, int64_t count) {
            for (int64_t block = first; block < first + count; ++block) worker.run(block, call);
            return count;
        },
        [&](Worker &worker) { worker.add_to_report(request, call.report); });
}

}  // namespace

}  // namespace pk::blocks

extern "C" int32_t pk_run_blocks(pk_block_program *programs, int64_t program_count, int64_t blocks,
                                 int64_t scratch_bytes, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::blocks::Request(programs, program_count, blocks, scratch_bytes, report); },
        pk::blocks::launch);
}
