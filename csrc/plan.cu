#include "common/plan.h"

#include <cstring>

#include "common/blocks.h"
#include "common/device.h"
#include "cuda/elementwise/jit_kernel.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/residency_map.h"

extern "C" int32_t pk_run_plan(pk_plan_body body, void *context) {
    return pk::guarded([&] {
        pk::plan::require_body(body);
        const pk::plan::Plan plan;
        pk::plan::run(body, context);
    });
}

extern "C" int32_t pk_plan_device(int64_t device) {
    return pk::guarded([&] {
        using pk::plan::Plan;
        pk::plan::require_plan(Plan::innermost() != nullptr);
        pk::require_index(device, pk::device_count(), "device");
        Plan::innermost()->be_on(int(device));
    });
}

extern "C" int32_t pk_plan_keep(uint64_t address, int64_t bytes, int32_t what, int32_t *kept) {
    return pk::guarded([&] {
        using pk::plan::Plan;
        pk::plan::require_range(address, bytes, what, kept);
        *kept = 0;
        if (Plan::innermost() == nullptr) return;
        auto *const host = reinterpret_cast<char *>(address);
        pk::require(Plan::overlapping(host, host + bytes).empty(), "the range overlaps one that is kept");
        const int device = Plan::innermost()->device();
        pk::plan::Memory memory(device, bytes);
        if (memory.get() == nullptr) return;
        Plan::innermost()->add({host, bytes, what, std::move(memory), what == PK_KEEP_INPUT, false, device});
        *kept = 1;
    });
}

extern "C" int32_t pk_plan_lend(uint64_t address, int64_t bytes, uint64_t home, uint64_t stream,
                                int32_t valid, int32_t *device) {
    return pk::guarded([&] {
        using pk::plan::Plan;
        pk::plan::require_lent(address, bytes, home, valid, device);
        pk::plan::require_plan(Plan::innermost() != nullptr);
        auto *const host = reinterpret_cast<char *>(address);
        pk::require(Plan::overlapping(host, host + bytes).empty(), "the range overlaps one that is kept");
        *device = pk::plan::device_of_lent(home, bytes, stream);
        const bool on_host = valid == PK_LENT_HOST;
        Plan::innermost()->add({host, bytes, PK_KEEP_TEMPORARY, pk::plan::Memory(), on_host, !on_host,
                                *device, reinterpret_cast<char *>(home)});
    });
}

extern "C" int32_t pk_plan_queue(uint64_t stream) {
    return pk::guarded([&] {
        using pk::plan::Plan;
        pk::plan::require_plan(Plan::innermost() != nullptr);
        pk::require_cuda();
        Plan::innermost()->queue_in(reinterpret_cast<cudaStream_t>(stream));
    });
}

extern "C" int32_t pk_plan_send(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            const pk::plan::Kept *const kept = pk::plan::Plan::find(address);
            const bool is_away = kept != nullptr && kept->on_host && !kept->on_device;
            return pk::plan::Moved{address, is_away ? kept->bytes : 0};
        },
        [](const pk::plan::Moved &asked, pk::Call &call) {
            if (asked.bytes == 0) return;
            pk::devices_of(call);  // throws where CUDA is not to be used
            pk::plan::Plan::find(asked.address)->bring_up(call);
        });
}

extern "C" int32_t pk_plan_fetch(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            const pk::plan::Kept *const kept = pk::plan::Plan::find(address);
            const bool is_away = kept != nullptr && kept->on_device && !kept->on_host;
            return pk::plan::Moved{address, is_away ? kept->bytes : 0};
        },
        [](const pk::plan::Moved &asked, pk::Call &call) {
            if (asked.bytes == 0) return;
            pk::devices_of(call);  // throws where CUDA is not to be used
            pk::plan::Plan::find(asked.address)->fetch(call);
        });
}

extern "C" int32_t pk_plan_changed(uint64_t address) {
    return pk::guarded([&] {
        if (pk::plan::Kept *const kept = pk::plan::Plan::find(address)) kept->change_on_host();
    });
}

extern "C" int32_t pk_plan_drop(uint64_t address) {
    return pk::guarded([&] {
        if (const pk::plan::Kept *const kept = pk::plan::Plan::find(address)) pk::plan::Plan::drop(*kept);
    });
}

extern "C" int32_t pk_plan_wanted(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *pass) {
    return pk::guarded([&] {
        pk::plan::require_source(source, size, bytes, pass);
        *bytes = 0;
        const auto wanted = pk::wanted_pass();
        if (wanted == nullptr) return;
        const std::string text = wanted->source();
        *bytes = int64_t(text.size());
        *pass = wanted->number;
        if (size >= *bytes) std::memcpy(source, text.data(), text.size());
    });
}

extern "C" int32_t pk_plan_compiled(uint64_t pass, const uint8_t *image, int64_t bytes) {
    return pk::guarded([&] {
        pk::plan::require_image(image, bytes);
        pk::pass_compiled(pass, std::vector<char>(image, image + bytes));
    });
}

extern "C" int32_t pk_run_blocks(pk_pass *passes, int64_t pass_count, int64_t blocks, int64_t scratch_bytes,
                                 const pk_options *, pk_report *report) {
    return pk::guarded([&] {
        const pk::blocks::Request checked(passes, pass_count, blocks, scratch_bytes, report);
        pk::fail(PK_UNSUPPORTED, "the CUDA library has no threads with caches: run a pass after the other");
    });
}
