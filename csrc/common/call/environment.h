// What the environment sets.
#pragma once

#include <cstdint>

namespace pk {

// A number from the environment, with a K, M or G behind it or none; `what` it is.
int64_t integer_from_environment(const char *variable, const char *expected, int64_t default_value,
                                 int64_t min_value);

}  // namespace pk
