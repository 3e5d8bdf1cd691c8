// Where the operands of a call lie on the device, if they do.
#pragma once

#include <vector>

#include "common/layout.h"
#include "common/program.h"
#include "cuda/pipeline/pipeline.h"
#include "residency_map.h"

namespace pk::plan {

struct Home {
    char *at = nullptr;    // of the operand's first element; null: the operand goes over the link as ever
    bool dense = false;    // the call's elements lie side by side there, in their order
    bool arrives = false;  // a load: it goes up to there, dense, chunk by chunk, to stay
    bool leaves = false;   // a store: it goes down to the host, too
};

// Memory of the host that a call reads, or writes all of.
struct Span {
    const char *low, *high;
    int64_t item;
    bool stored;
    bool may_be_home;         // a kernel can use it there: it is dense, and what it wants
    bool may_arrive = false;  // it may go up chunk by chunk

    Span(const void *begin, int64_t bytes, int64_t item, bool stored, bool may_be_home = true)
        : low(static_cast<const char *>(begin)),
          high(low + bytes),
          item(item),
          stored(stored),
          may_be_home(may_be_home) {}
    Span(const Layout &layout, const View &view, bool stored);
};

// Whether all of them have one.
bool have_homes(const std::vector<Span> &spans, const std::vector<int> &devices);

// The line that a call stands in: the thread's, where all that it works on lies there; else null.
const Line *line_of(const std::vector<Span> &spans, const std::vector<int> &devices);

// Brings what a program loads to its home, where that is not better done chunk by chunk.
void bring_up(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices);

// Brings to the host what lies there.
void bring_down(const std::vector<Span> &spans, Call &call);

// The homes of a call's operands. Made before the call's work, on the thread that made the call: what cannot
// come to its home chunk by chunk is brought there at once, and what has to be read or written on the host is
// brought down. If the call is not settled, it has failed, and what it was writing to is not valid.
// Unless a call may stand in its thread's line, it comes after what stands there.
class Homes {
   public:
    Homes(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices);
    // Of spans, each of which is an operand. What is read comes to its home at once, unless it may arrive.
    Homes(const std::vector<Span> &spans, Call &call, const std::vector<int> &devices,
          bool may_queue = false);
    // Of results that the host writes.
    Homes(const Layout &results, Call &call);
    // Of the caller's own operands on a device, in no plan.
    struct Callers {};
    Homes(Callers, const Layout &layout, Call &call);
    ~Homes();
    Homes(const Homes &) = delete;
    Homes &operator=(const Homes &) = delete;

    Home of(int operand) const { return size_t(operand) < homes_.size() ? homes_[size_t(operand)] : Home(); }
    // Whether more calls of this kind are likely to come.
    bool are_lasting() const { return are_callers_ || Plan::innermost() != nullptr; }
    // Whether somebody waits for the call, and is told what it met.
    bool are_heeded() const { return Line::here() == nullptr; }
    void settle();
    // If the call has failed before it wrote to anything.
    void leave();
    // If somebody may write to what it was writing to for ever: nobody is to have that memory again.
    void abandon();

    // Of dense operands: what a work carries, and where a chunk's elements of one are; null if nowhere.
    std::vector<Carried> loads(const std::vector<int> &operands) const;
    std::vector<Carried> stores(int operand) const;
    char *at(const Work &work, const Chunk &chunk, int operand) const;

   private:
    void go_over_host(const Layout &layout, const View &view, bool stored);
    void go_over_host(const char *low, const char *high, bool stored);

    Call &call_;
    std::vector<Home> homes_;
    std::vector<Kept *> arriving_, written_, written_on_host_;
    bool is_settled_ = false;
    bool are_callers_ = false;
};

}  // namespace pk::plan
