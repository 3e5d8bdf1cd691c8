// Where the operands of a call lie on the device, if they do.
#pragma once

#include <vector>

#include "common/layout.h"
#include "common/program.h"
#include "kept.h"

namespace pk::plan {

struct Home {
    char *at = nullptr;    // of the operand's first element; null: the operand goes over the link as ever
    bool dense = false;    // the call's elements lie side by side there, in their order
    bool arrives = false;  // a load: it goes up to there, dense, chunk by chunk, to stay
    bool leaves = false;   // a store: it goes down to the host, too
};

// The homes of a call's operands. Made before the call's work, on the thread that made the call: what cannot
// come to its home chunk by chunk is brought there at once, and what has to be read or written on the host is
// brought down. If the call is not settled, it has failed, and what it was writing to is not valid.
class Homes {
   public:
    Homes(const Layout &layout, const Program &program, Call &call, const std::vector<int> &devices);
    // Of results that the host writes.
    Homes(const Layout &results, Call &call);
    ~Homes();
    Homes(const Homes &) = delete;
    Homes &operator=(const Homes &) = delete;

    Home of(int operand) const { return homes_.empty() ? Home() : homes_[size_t(operand)]; }
    void settle();

   private:
    void go_over_host(const Layout &layout, const View &view, bool stored);

    Call &call_;
    std::vector<Home> homes_;
    std::vector<Kept *> arriving_, written_, written_on_host_;
    bool is_settled_ = false;
};

}  // namespace pk::plan
