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

    void set(cudaStream_t queue) const;
    // They are again what they were when the modules were loaded. Queued.
    void restore(cudaStream_t queue) const;

   private:
    const std::vector<char> &pristine(const pk_symbol &symbol) const;

    const Run &run_;
    const Modules &modules_;
    std::vector<Variable> variables_;
};

class Printing {
   public:
    // Records have so much room, in bytes.
    Printing(const Modules &modules, int64_t room);

    bool is_possible() const { return !variables_.empty(); }
    void begin(int device, Holdings &held);
    // Once all is done; wait() waits for what was queued.
    template <class Wait>
    std::string read(cudaStream_t queue, Wait wait) {
        PK_CUDA(cudaMemcpyAsync(&printed_, memory_, sizeof(printed_), cudaMemcpyDeviceToHost, queue));
        wait();
        if (printed_.used == 0) return {};
        std::vector<char> records(std::min(printed_.used, printed_.room));
        PK_CUDA(cudaMemcpyAsync(records.data(), memory_ + sizeof(Printed), records.size(),
                                cudaMemcpyDeviceToHost, queue));
        wait();
        return text_of_records(records.data(), printed_);
    }

   private:
    std::vector<Variable> variables_;  // of the modules that print
    Printed printed_;
    char *memory_ = nullptr;
};

}  // namespace pk::kernels
