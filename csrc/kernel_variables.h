// The variables of images that a run sets: those that the caller names, and where they print to.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/kernels.h"
#include "kernel_holdings.h"
#include "kernel_images.h"
#include "kernel_printed.h"

namespace pk::kernels {

using Images = std::vector<std::shared_ptr<Image>>;

class Symbols {
   public:
    // Throws unless the images have them, and room for their values.
    Symbols(const Run &run, const Images &images);

    void set(cudaStream_t queue) const;
    // They are again what they were when the images were loaded. Queued.
    void restore(cudaStream_t queue) const;

   private:
    const std::vector<char> &pristine(const pk_symbol &symbol) const;

    const Run &run_;
    const Images &images_;
    std::vector<Variable> variables_;
};

class Printing {
   public:
    // Records have so much room, in bytes.
    Printing(const Images &images, int64_t room);

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
    std::vector<Variable> variables_;  // of the images that print
    Printed printed_;
    char *memory_ = nullptr;
};

}  // namespace pk::kernels
