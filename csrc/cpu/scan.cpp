// Scans on the CPU: reduce-then-scan over units of blocks, with the carry handed from unit to unit in order.
#include "common/scan.h"

#include <algorithm>

#include "common/call/call.h"
#include "common/call/ordered_section.h"
#include "scan_terms.h"

namespace pk::scan {

namespace {

// The elements of the units that a thread takes at once, so that they are still in the cache when it reads
// them again. A thread is woken only for at least half as many.
constexpr int64_t RUN_ELEMENTS = 32 << 10;

// The carries before a unit, one for each column, handed from unit to unit in their order.
template <class Op>
using Carries = std::vector<Carry<Op>>;

// A thread that scans some units of a region.
template <class Op>
class Scanner {
    using State = typename Op::State;
    using Term = typename Op::Term;

   public:
    Scanner(const Request &request, const Region &region, Carries<Op> &carries, Call &call)
        : request_(request), slabs_(region.slabs), carries_(carries), call_(call), terms_(request, region) {}

    uint32_t raised() const { return raised_ | terms_.raised(); }

    // Scans units, which take their carries in the section. Returns their number of elements.
    int64_t run(pk_range units, OrderedSection &section) {
        const int64_t start = slabs_.start(units.start);
        const int64_t count = slabs_.start(units.start + units.count) - start;
        from_ = terms_.load(start, count);
        find_parts(units);
        const bool runs_on = slabs_.blocks() > 1;
        if (runs_on || slabs_.length > SEGMENT) {
            for (const Part &part : parts_)
                terms_.loops().totals(at(from_, part.first), part.rows, slabs_.inner,
                                      &states_[part.segments]);
            if (runs_on) take_carries(units, section);
            for (size_t p = 0; p < parts_.size(); ++p) find_states(p, runs_on);
        }
        void *const to = terms_.results(start, count);
        bool has_non_finite = false;
        for (const Part &part : parts_) {
            has_non_finite |= terms_.loops().run[request_.is_exclusive](
                at(from_, part.first), at(to, part.first), part.rows, slabs_.inner, &states_[part.segments]);
            if (request_.is_exclusive && part.block == 0) begin_with_identity(to, part);
        }
        has_non_finite |= terms_.store(to, start, count);
        if (has_non_finite && request_.reports()) {
            for (const Part &part : parts_) find_exceptions(part);
        }
        return count;
    }

   private:
    // A block of a slab in these units: its first element, and the first of its segments' states.
    struct Part {
        int64_t first, rows, block;
        size_t segments;
    };

    template <class Pointer>
    Pointer at(Pointer elements, int64_t index) const {
        using Byte = std::conditional_t<std::is_same_v<Pointer, void *>, char, const char>;
        const size_t item = terms_.are_floats() ? sizeof(float) : sizeof(Term);
        return static_cast<Byte *>(elements) + size_t(index) * item;
    }

    Term term(int64_t index) const {
        return terms_.are_floats() ? Term(static_cast<const float *>(from_)[index])
                                   : static_cast<const Term *>(from_)[index];
    }

    State take(const State &before, const State &total, int64_t first, int64_t rows) const {
        return after<Op>(before, total, rows, [&](int64_t row) { return term(first + row * slabs_.inner); });
    }

    void find_parts(pk_range units) {
        parts_.clear();
        size_t segments = 0;
        int64_t first = 0;
        for (int64_t u = units.start; u < units.start + units.count; ++u) {
            const Slabs::WorkUnit unit = slabs_.unit(u);
            for (int64_t slab = 0; slab < unit.slabs; ++slab) {
                parts_.push_back({first, unit.rows, unit.block, segments});
                segments += size_t(segments_of(unit.rows) * slabs_.inner);
                first += unit.rows * slabs_.inner;
            }
        }
        states_.assign(segments, Op::identity());
    }

    // Calls visit(state, first, rows) for each segment of a column of a part.
    template <class Visit>
    void for_segments(const Part &part, int64_t column, Visit visit) {
        for (int64_t row = 0, s = 0; row < part.rows; row += SEGMENT, ++s) {
            visit(states_[part.segments + size_t(s * slabs_.inner + column)],
                  part.first + row * slabs_.inner + column, std::min(SEGMENT, part.rows - row));
        }
    }

    void take_carries(pk_range units, OrderedSection &section) {
        const size_t inner = size_t(slabs_.inner);
        totals_.assign(parts_.size() * inner, Op::identity());
        for (size_t p = 0; p < parts_.size(); ++p) {
            for (size_t c = 0; c < inner; ++c) {
                State &total = totals_[p * inner + c];
                for_segments(parts_[p], int64_t(c), [&](const State &segment, int64_t first, int64_t rows) {
                    total = take(total, segment, first, rows);
                });
            }
        }
        section.run(units, call_, [&] {
            for (size_t p = 0; p < parts_.size(); ++p) {
                const Part &part = parts_[p];
                for (size_t c = 0; c < inner; ++c) {
                    Carry<Op> &carry = carries_[c];
                    State &total = totals_[p * inner + c];
                    carry.begin(part.block);
                    const State before = carry.running;
                    carry.end(total, take(before, total, part.first + int64_t(c), part.rows));
                    total = before;
                }
            }
        });
    }

    // Replaces the totals of segments by the states before them.
    void find_states(size_t index, bool runs_on) {
        const Part &part = parts_[index];
        for (int64_t c = 0; c < slabs_.inner; ++c) {
            State state = runs_on ? totals_[index * size_t(slabs_.inner) + size_t(c)] : Op::identity();
            for_segments(part, c, [&](State &segment, int64_t first, int64_t rows) {
                const State total = segment;
                segment = state;
                state = take(state, total, first, rows);
            });
        }
    }

    void begin_with_identity(void *to, const Part &part) const {
        for (int64_t c = 0; c < slabs_.inner; ++c) {
            if (terms_.are_floats()) {
                static_cast<float *>(to)[part.first + c] = 0;
            } else {
                static_cast<Term *>(to)[part.first + c] = identity_of<Op>();
            }
        }
    }

    double rounded(const State &state) const { return scan::rounded(double(Op::value(state)), request_.to); }

    void find_exceptions(const Part &part) {
        const int64_t last = (part.block + 1) * Slabs::BLOCK >= slabs_.length && request_.is_exclusive;
        for (int64_t c = 0; c < slabs_.inner; ++c) {
            for_segments(part, c, [&](State state, int64_t first, int64_t rows) {
                if (first + rows * slabs_.inner >= part.first + part.rows * slabs_.inner) rows -= last;
                double before = rounded(state);
                for (int64_t row = 0; row < rows && before == before; ++row) {
                    const Term taken = term(first + row * slabs_.inner);
                    Op::step(state, taken);
                    const double result = rounded(state);
                    raised_ |= scan::raised(double(taken), before, result);
                    before = result;
                }
            });
        }
    }

    const Request &request_;
    const Slabs slabs_;
    Carries<Op> &carries_;
    Call &call_;
    Terms terms_;
    const void *from_ = nullptr;
    std::vector<Part> parts_;
    std::vector<State> states_, totals_;
    uint32_t raised_ = 0;
};

template <class Op>
void scan_region(const Request &request, const Region &region, Call &call) {
    const Slabs &slabs = region.slabs;
    const int64_t all = slabs.units(), share = std::max<int64_t>(1, RUN_ELEMENTS / slabs.max_elements());
    const int64_t worth = region.layout.size / (RUN_ELEMENTS / 2);
    const int64_t threads = std::clamp<int64_t>(std::min(worth, ceil_div(all, share)), 1, thread_count());
    Carries<Op> carries(size_t(slabs.inner));
    parallel_for_ordered(
        call, all, share, threads, [&] { return Scanner<Op>(request, region, carries, call); },
        [&](Scanner<Op> &scanner, OrderedSection &section, int64_t first, int64_t count) {
            const int64_t elements = scanner.run({first, count}, section);
            call.advance(elements);
            return elements;
        },
        [&](const Scanner<Op> &scanner) { call.report.exceptions |= scanner.raised(); });
}

void launch(const Request &request, Call &call) {
    for (const Region &region : request.regions) {
        visit_op(request.kind, [&](auto op) { scan_region<decltype(op)>(request, region, call); });
    }
}

}  // namespace
}  // namespace pk::scan

extern "C" int32_t pk_scan(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                           int64_t dimensions, int64_t outer, int64_t rows, const pk_options *options,
                           pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::scan::Request(operation, flags, operands, shape, dimensions, outer, rows); },
        pk::scan::launch);
}
