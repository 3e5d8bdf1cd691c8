// Fast path for programs that only copy.
#pragma once

#include "common/elementwise.h"

namespace pk {

// If the program only loads one operand and stores it to another, dense one, copies all elements and returns
// true.
bool copy(const Evaluation &evaluation, Call &call, pk_range range);

}  // namespace pk
