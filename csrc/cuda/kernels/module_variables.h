// Module variables that a run sets: the caller's symbols, and the printf buffer's address.
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

// The symbols of a run: sets them before it and restores them after it.
class Symbols {
   public:
    // Throws unless the modules have these variables, in the sizes of their values.
    Symbols(const Run &run, const Modules &modules);

    void set(cudaStream_t stream) const;
    // Enqueue copies of the variables' initial values.
    void restore(cudaStream_t stream) const;

   private:
    const std::vector<char> &initial_value(const pk_symbol &symbol) const;

    const Run &run_;
    const Modules &modules_;
    std::vector<Variable> variables_;
};

// The printf buffer of a run, if any of its modules prints.
class DevicePrintf {
   public:
    // `capacity` is in bytes of records.
    DevicePrintf(const Modules &modules, int64_t capacity);

    bool is_possible() const { return !variables_.empty(); }
    // Allocate the buffer, and enqueue its address to the modules' variables.
    void begin(int device, RunResources &resources);
    // Read and format the records, after all kernels; wait() synchronizes the stream.
    template <class Wait>
    std::string read(cudaStream_t stream, Wait wait) {
        PK_CUDA(cudaMemcpyAsync(&printf_header_, d_memory_, sizeof(printf_header_), cudaMemcpyDeviceToHost,
                                stream));
        wait();
        if (printf_header_.used == 0) return {};
        std::vector<char> records(std::min(printf_header_.used, printf_header_.capacity));
        PK_CUDA(cudaMemcpyAsync(records.data(), d_memory_ + sizeof(PrintfHeader), records.size(),
                                cudaMemcpyDeviceToHost, stream));
        wait();
        return text_of_records(records.data(), printf_header_);
    }

   private:
    std::vector<Variable> variables_;  // one for each module that prints
    PrintfHeader printf_header_;
    char *d_memory_ = nullptr;
};

}  // namespace pk::kernels
