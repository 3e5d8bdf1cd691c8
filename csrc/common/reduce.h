// What pk_reduce is asked for, checked, the partials of its blocks, and the results that they come to.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/call/call.h"
#include "common/call/status.h"
#include "program.h"
#include "slabs.h"

namespace pk {

// How the partials of a kind and a type of values, of `words` words of 8 bytes, become one and a result.
struct PartialOps {
    int words;
    void (*merge)(void *partial, const void *next);
    void (*write)(const pk_reduction &spec, void *partial, int64_t length, int type, void *result);
    bool (*is_better)(const void *partial, const void *other) = nullptr;  // where kinds look for a place
};

struct Reduction {
    const pk_reduction spec;
    const int64_t size;  // elements
    const Program program;
    const int64_t instruction_count;
    const int type;     // of the values
    const bool masked;  // the second value says which count
    const PartialOps partial_ops;
    const Layout result;  // of the one operand
    int first_value;      // operand

    uint8_t *const exceptions;  // of each instruction

    Reduction(const pk_reduction *spec, const pk_instruction *instructions, int64_t instruction_count,
              const pk_operand *operands, int64_t operand_count, const int64_t *shape, int64_t dimensions,
              uint8_t *exceptions, const pk_report *report, int32_t flags = PK_OPERAND_BYTE_SWAPPED);
    int64_t elements() const { return size; }

    // Nothing was met yet.
    void clear_exceptions() const { std::fill_n(exceptions, instruction_count, uint8_t(0)); }

    // If the program does nothing: the operand whose elements are the values. Else -1.
    int loaded(int value) const;

    // Of its operands, with units of about so many elements at most.
    std::vector<Region> regions(int64_t unit_elements = Slabs::UNIT_ELEMENTS) const;

   private:
    const pk_operand *const operands_;
    const int64_t *const shape_;
    const int64_t dimensions_;
};

// What pk_reduce_several is asked for, checked: reductions of the same values.
class Reductions {
   public:
    Reductions(const pk_reduction *spec, int64_t count, const pk_instruction *instructions,
               int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
               const int64_t *shape, int64_t dimensions, uint8_t *exceptions, const pk_report *report);
    int64_t elements() const { return all().front()->size; }
    const std::vector<std::unique_ptr<const Reduction>> &all() const { return all_; }

   private:
    std::vector<std::vector<pk_operand>> operands_;  // of each, its own result the last
    std::vector<std::unique_ptr<const Reduction>> all_;
};

// The partials of a region's blocks, until they are results.
class Partials {
   public:
    Partials(const Reduction &reduction, const Region &region);

    // Takes the partials of some units, those of a unit after those of the one before: of a slab after the
    // other, of each column. Every unit has room for as many as the largest. Any thread may come.
    void take(int64_t first_unit, int64_t units, const char *partials);
    int64_t bytes_per_unit() const;
    // The same of results that were made of partials already, where slabs have one block: without gaps.
    void take_results(int64_t first_unit, int64_t units, const char *results) const;
    int64_t result_bytes_per_unit() const;

    // When all have been taken.
    void finish(Call &call);

   private:
    void join(int64_t slab, int64_t first, int64_t end, int64_t apart) const;
    void write(int64_t slab, int64_t slabs, char *partials, int64_t apart) const;
    void put(int64_t slab, int64_t slabs, const char *results) const;

    const Reduction &reduction_;
    const Region &region_;
    const int64_t bytes_;               // of a partial
    std::unique_ptr<char[]> partials_;  // by slab, block and column, where slabs have several blocks
};

}  // namespace pk
