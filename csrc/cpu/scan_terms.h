// Conversion of a scan's operands to the types of the arithmetic, and back.
#pragma once

#include <cstdint>
#include <memory>

#include "common/scan.h"
#include "loops.h"

namespace pk::scan {

// A growing, uninitialized buffer for elements of any type.
class ScratchBuffer {
   public:
    void *reserve(int64_t elements) {
        if (elements > elements_) {
            memory_.reset(new uint64_t[size_t(elements)]);
            elements_ = elements;
        }
        return memory_.get();
    }

   private:
    std::unique_ptr<uint64_t[]> memory_;
    int64_t elements_ = 0;
};

// Reads a scan's elements as terms, which have the type of its arithmetic, and writes its results.
class Terms {
   public:
    Terms(const Request &request, const Region &region);

    const ScanLoops &loops() const { return loops_; }
    bool are_floats() const { return is_fused_; }  // else they have the type request.term

    // Loads elements of the region as terms, which stay valid until the next load.
    const void *load(int64_t start, int64_t count);
    // Returns memory for results, in the type of the terms; store() converts them to the array, and returns
    // whether any of them may have become infinite.
    void *results(int64_t start, int64_t count);
    bool store(const void *results, int64_t start, int64_t count);

    uint32_t raised() const { return raised_; }  // by casts

   private:
    bool convert(int from, int to, const void *source, void *target, int64_t count);

    const Request &request_;
    const Layout &layout_;
    const bool is_fused_;  // float32 is used without conversion
    const bool is_in_place_;
    const ScanLoops &loops_;
    ScratchBuffer gathered_, terms_, narrow_, results_, dense_, floats_;
    uint32_t raised_ = 0;
};

}  // namespace pk::scan
