// Passes over blocks: a thread goes through all of them over a block, which so stays in its caches.
#include "common/blocks.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/call/parallel_for.h"

namespace pk::blocks {

namespace {

// A pass, as one thread runs it.
class OwnPass {
   public:
    OwnPass(const pk_pass &pass, const char *scratch)
        : pass_(pass),
          operands_(operands_of(pass, scratch)),
          met_(size_t(pass.instruction_count)),
          exceptions_(size_t(pass.instruction_count), 0) {}

    void run(int64_t block, const Call &call) {
        const double begin = call.seconds();
        const auto *moves = at<int64_t>(pass_.moves);
        for (size_t i = 0; i < operands_.size(); ++i)
            operands_[i].address += uint64_t((block - block_) * moves[i]);
        block_ = block;
        const int32_t status = pass_.reduction_count == 0 ? evaluate() : reduce();
        if (status != PK_OK) fail(pk_status(status), last_error());
        for (size_t i = 0; i < met_.size(); ++i) exceptions_[i] |= met_[i];
        seconds_ += call.seconds() - begin;
    }

    // For one thread at a time.
    void tell(pk_pass &pass, pk_report &report) const {
        pass.seconds += seconds_;
        for (size_t i = 0; i < met_.size(); ++i) {
            at<uint8_t>(pass.exceptions)[i] |= exceptions_[i];
            report.exceptions |= exceptions_[i];
        }
    }

   private:
    int32_t evaluate() {
        pk_report report;
        return pk_evaluate(at<pk_instruction>(pass_.program), pass_.instruction_count, operands_.data(),
                           pass_.operand_count, at<int64_t>(pass_.shape), pass_.dimensions, nullptr,
                           met_.data(), &report);
    }

    int32_t reduce() {
        pk_report report;
        return pk_reduce_several(at<pk_reduction>(pass_.reductions), pass_.reduction_count,
                                 at<pk_instruction>(pass_.program), pass_.instruction_count, operands_.data(),
                                 pass_.operand_count, at<int64_t>(pass_.shape), pass_.dimensions, met_.data(),
                                 nullptr, &report);
    }

    const pk_pass &pass_;
    std::vector<pk_operand> operands_;
    std::vector<uint8_t> met_, exceptions_;
    int64_t block_ = 0;  // where the operands are
    double seconds_ = 0;
};

// A thread's way through some of the blocks.
class Worker {
   public:
    explicit Worker(const Request &request) : scratch_(new char[size_t(request.scratch_bytes + LINE)]) {
        const auto lost = reinterpret_cast<uintptr_t>(scratch_.get()) % LINE;
        for (int64_t i = 0; i < request.pass_count; ++i)
            passes_.emplace_back(request.passes[i], scratch_.get() + (LINE - lost) % LINE);
    }

    void run(int64_t block, Call &call) {
        const Alone alone;
        for (OwnPass &pass : passes_) pass.run(block, call);
        call.advance(1);
    }

    void tell(const Request &request, pk_report &report) const {
        for (size_t i = 0; i < passes_.size(); ++i) passes_[i].tell(request.passes[i], report);
    }

   private:
    static constexpr int64_t LINE = 64;
    std::unique_ptr<char[]> scratch_;
    std::vector<OwnPass> passes_;
};

void launch(const Request &request, Call &call) {
    for (int64_t i = 0; i < request.pass_count; ++i) {
        pk_pass &pass = request.passes[i];
        pass.seconds = 0;
        std::fill_n(at<uint8_t>(pass.exceptions), pass.instruction_count, uint8_t(0));
    }
    share_out(
        call, request.blocks, 1, std::min(request.blocks, thread_count()), [&] { return Worker(request); },
        [&](Worker &worker, int64_t first, int64_t count) {
            for (int64_t block = first; block < first + count; ++block) worker.run(block, call);
            return count;
        },
        [&](Worker &worker) { worker.tell(request, call.report); });
}

}  // namespace

}  // namespace pk::blocks

extern "C" int32_t pk_run_blocks(pk_pass *passes, int64_t pass_count, int64_t blocks, int64_t scratch_bytes,
                                 const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::blocks::Request(passes, pass_count, blocks, scratch_bytes, report); },
        pk::blocks::launch);
}
