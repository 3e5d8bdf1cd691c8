// The checked arguments of pk_reduce, and Partials: the partial results of blocks, their combination and the
// final results.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/call/call.h"
#include "common/call/status.h"
#include "program.h"
#include "slabs.h"

namespace pk {

// Type-erased operations on the partials of one kind of reduction and type of values; a partial is `words`
// words of 8 bytes. merge() adds the partial of the next block; finalize() computes the result.
struct PartialOps {
    int words;
    void (*merge)(void *partial, const void *next);
    void (*finalize)(const pk_reduction &spec, void *partial, int64_t length, int type, void *result);
    bool (*is_better)(const void *partial, const void *other) = nullptr;  // argmin and argmax
};

struct Reduction {
    const pk_reduction spec;
    const int64_t size;  // elements
    const Program program;
    const int64_t instruction_count;
    const int type;     // of the values
    const bool masked;  // the second value is a mask
    const PartialOps partial_ops;
    Layout result;    // of the result operand alone
    int first_value;  // the operand of the first value

    uint8_t *const exceptions;  // for each instruction

    Reduction(const pk_reduction *spec, const pk_instruction *instructions, int64_t instruction_count,
              const pk_operand *operands, int64_t operand_count, const int64_t *shape, int64_t dimensions,
              uint8_t *exceptions, const pk_report *report, int32_t flags = PK_OPERAND_BYTE_SWAPPED);
    int64_t elements() const { return size; }

    // Clears the exception flags.
    void clear_exceptions() const { std::fill_n(exceptions, instruction_count, uint8_t(0)); }

    // The operand that the program loads as a value, if the program does nothing else. Else -1.
    int loaded(int value) const;

    // The regions of the operands, with units of about unit_elements elements at most.
    std::vector<Region> regions(int64_t unit_elements = Slabs::UNIT_ELEMENTS) const;

   private:
    const pk_operand *const operands_;
    const int64_t *const shape_;
    const int64_t dimensions_;
};

// The checked arguments of pk_reduce_several: reductions of the same values.
class Reductions {
   public:
    Reductions(const pk_reduction *spec, int64_t count, const pk_instruction *instructions,
               int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
               const int64_t *shape, int64_t dimensions, uint8_t *exceptions, const pk_report *report);
    int64_t elements() const { return all().front()->size; }
    const std::vector<std::unique_ptr<Reduction>> &all() const { return all_; }
    void move_result(size_t reduction, int64_t bytes) { all_[reduction]->result.views[0].base += bytes; }

   private:
    std::vector<std::vector<pk_operand>> operands_;  // for each reduction, with its own result last
    std::vector<std::unique_ptr<Reduction>> all_;
};

// The partials of the blocks of a region, until they are combined.
class Partials {
   public:
    // With `are_on_host`, there is memory for the partials of slabs of several blocks.
    Partials(const Reduction &reduction, const Region &region, bool are_on_host = true);

    // Stores the partials of some units. They come unit after unit, within a unit slab after slab, and within
    // a slab column after column, with space for those of the largest unit. Any thread may call it.
    void store(int64_t first_unit, int64_t units, const char *partials);
    int64_t bytes_per_unit() const;
    // The same for results that were finalized already, where each slab has one block; they are contiguous.
    void store_results(int64_t first_unit, int64_t units, const char *results) const;
    int64_t result_bytes_per_unit() const;

    // Combines the partials and writes the results, after all have been stored.
    void finish(Call &call);

   private:
    void combine(int64_t slab, int64_t first, int64_t end, int64_t distance) const;
    void finalize(int64_t first_slab, int64_t slabs, char *partials, int64_t slab_bytes) const;
    void scatter(int64_t first_slab, int64_t slabs, const char *results) const;

    const Reduction &reduction_;
    const Region &region_;
    const int64_t bytes_;               // of a partial
    std::unique_ptr<char[]> partials_;  // by slab, block and column; null if slabs have one block
};

}  // namespace pk
