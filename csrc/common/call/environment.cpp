// Numbers from environment variables.
#include "environment.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "status.h"

namespace pk {

int64_t integer_from_environment(const char *variable, const char *expected, int64_t default_value,
                                 int64_t min_value) {
    const char *text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return default_value;
    char *end = nullptr;
    const double number = std::strtod(text, &end);
    const std::string units = "KMG", unit = end;
    const size_t place = unit.size() == 1 ? units.find(unit) : std::string::npos;
    const bool is_valid = end != text && (unit.empty() || place != std::string::npos);
    const double bytes = unit.empty() ? number : std::ldexp(number, 10 * (int(place) + 1));
    if (!is_valid || !(bytes >= double(min_value)) || bytes > 0x1p60) {
        fail(PK_INVALID_ARGUMENT, std::string(variable) + " is '" + text + "'; set it to " + expected +
                                      ", as 512M or 2G, of " + std::to_string(min_value) +
                                      " at least, or unset it");
    }
    return int64_t(bytes);
}

}  // namespace pk
