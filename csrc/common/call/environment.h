// Numbers from environment variables.
#pragma once

#include <cstdint>

namespace pk {

// Returns the value of an environment variable, a number with an optional suffix K, M or G, or
// `default_value` if it is unset. Throws with `expected` in the message if it is malformed or below
// `min_value`.
int64_t integer_from_environment(const char *variable, const char *expected, int64_t default_value,
                                 int64_t min_value);

}  // namespace pk
