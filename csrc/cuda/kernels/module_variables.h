// The variables of modules that a run sets: those that the caller names, and where they print to.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/kernels.h"
#include "device_printf.h"
#include "module_cache.h"
#include "run_resources.h"

namespace pk::kernels {

using Modules = std::vector<std::shared_ptr<Module>>;

class Symbols {
   public:
    // Throws unless the modules have them, and room for their values.
    Symbols(const Run &run, const Modules &modules);

    void set(cudaStream_t stream) const;
    // They are again what they were when the modules were loaded. Queued.
    void restore(cudaStream_t stream) const;

   private:
    const std::vector<char> &initial_value(const pk_symbol &symbol) const;

    const Run &run_;
    const Modules &modules_;
    std::vector<Variable> variables_;
};

class DevicePrintf {
   public:
    // Records have so much room, in bytes.
    DevicePrintf(const Modules &modules, int64_t capacity);

    bool is_possible() const { return !variables_.empty(); }
    void begin(int device, RunResources &resources);
    // Once all is done; wait() waits for what was queued.
    template <class Wait>
    std::string read(cudaStream_t stream, Wait wait) {
        PK_CUDA(cudaMemcpyAsync(&printf_header_, memory_, sizeof(printf_header_), cudaMemcpyDeviceToHost,
                                stream));
        wait();
        if (printf_header_.used == 0) return {};
        std::vector<char> records(std::min(printf_header_.used, printf_header_.capacity));
        PK_CUDA(cudaMemcpyAsync(records.data(), memory_ + sizeof(PrintfHeader), records.size(),
                                cudaMemcpyDeviceToHost, stream));
        wait();
        return text_of_records(records.data(), printf_header_);
    }

   private:
    std::vector<Variable> variables_;  // of the modules that print
    PrintfHeader printf_header_;
    char *memory_ = nullptr;
};

}  // namespace pk::kernels
