#include "environment.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "status.h"

namespace pk {

int64_t from_environment(const char *variable, const char *what, int64_t usual, int64_t least) {
    const char *text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return usual;
    char *end = nullptr;
    const double number = std::strtod(text, &end);
    const std::string units = "KMG", unit = end;
    const size_t place = unit.size() == 1 ? units.find(unit) : std::string::npos;
    const bool known = end != text && (unit.empty() || place != std::string::npos);
    const double bytes = unit.empty() ? number : std::ldexp(number, 10 * (int(place) + 1));
    if (!known || !(bytes >= double(least)) || bytes > 0x1p60) {
        fail(PK_INVALID_ARGUMENT, std::string(variable) + " is '" + text + "'; set it to " + what +
                                      ", as 512M or 2G, of " + std::to_string(least) +
                                      " at least, or unset it");
    }
    return int64_t(bytes);
}

}  // namespace pk
