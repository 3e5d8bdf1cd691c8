// Formats the records of device printf on the host, with the conversions of C's printf.
#include "device_printf.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace pk::kernels {

namespace {

// The type of an argument, as the kernels record it.
enum Kind : uint64_t { SIGNED, UNSIGNED, FLOATING, POINTER, TEXT };

constexpr int MAX_WIDTH = 4096;

// An argument of a record.
struct Argument {
    Kind kind;
    uint64_t bits;
    std::string text;

    double number() const {
        if (kind == SIGNED) return double(int64_t(bits));
        if (kind != FLOATING) return double(bits);
        double value;
        std::memcpy(&value, &bits, sizeof(value));
        return value;
    }
    // A number that an integer's conversion is given is cut as a GPU cuts it: out of range, it becomes the
    // nearest integer, and NaN 0.
    uint64_t integer() const {
        if (kind != FLOATING) return bits;
        constexpr double END = 0x1p63;
        const double value = number();
        if (std::isnan(value)) return 0;
        return uint64_t(value >= END ? INT64_MAX : value < -END ? INT64_MIN : int64_t(value));
    }
};

// Reads words and strings from the records, and never beyond their end.
class Reader {
   public:
    Reader(const char *at, uint64_t bytes) : at_(at), left_(bytes) {}

    uint64_t left() const { return left_; }
    uint64_t word() {
        uint64_t value = 0;
        if (left_ >= sizeof(value)) std::memcpy(&value, at_, sizeof(value));
        skip(sizeof(value));
        return value;
    }
    std::string text() {
        const uint64_t bytes = std::min(word(), left_);
        std::string value(at_, bytes);
        skip((bytes + 7) / 8 * 8);
        return value;
    }
    Reader part(uint64_t bytes) {
        const Reader part(at_, std::min(bytes, left_));
        skip(bytes);
        return part;
    }

   private:
    void skip(uint64_t bytes) {
        const uint64_t step = std::min(bytes, left_);
        at_ += step;
        left_ -= step;
    }

    const char *at_;
    uint64_t left_;
};

template <class... Values>
void append(std::string &to, const std::string &conversion, Values... values) {
    char buffer[128];
    const int length = std::snprintf(buffer, sizeof(buffer), conversion.c_str(), values...);
    if (length < 0) return;
    if (size_t(length) < sizeof(buffer)) {
        to.append(buffer, size_t(length));
        return;
    }
    std::string longer(size_t(length) + 1, '\0');
    std::snprintf(longer.data(), longer.size(), conversion.c_str(), values...);
    to.append(longer, 0, size_t(length));
}

// Formats one record as printf does, with the host's snprintf for each conversion.
class Formatter {
   public:
    Formatter(const std::string &format, const std::vector<Argument> &arguments, std::string &to)
        : at_(format.c_str()), arguments_(arguments), to_(to) {}

    void run() {
        while (*at_ != '\0') {
            if (*at_ != '%') {
                to_ += *at_++;
            } else if (at_[1] == '%') {
                to_ += '%';
                at_ += 2;
            } else {
                convert();
            }
        }
    }

   private:
    const Argument *next() { return next_ < arguments_.size() ? &arguments_[next_++] : nullptr; }

    void take_number(std::string &conversion) {
        int64_t number = 0;
        if (*at_ == '*') {
            const Argument *argument = next();
            number = argument == nullptr ? 0 : int32_t(argument->integer());
            ++at_;
        } else {
            while (std::isdigit(uint8_t(*at_)))
                number = std::min<int64_t>(number * 10 + (*at_++ - '0'), MAX_WIDTH);
        }
        conversion += std::to_string(std::clamp<int64_t>(number, -MAX_WIDTH, MAX_WIDTH));
    }

    void convert() {
        const char *const start = at_++;
        std::string conversion = "%", size;
        while (*at_ != '\0' && std::strchr("-+ #0", *at_) != nullptr) conversion += *at_++;
        if (*at_ == '*' || std::isdigit(uint8_t(*at_))) take_number(conversion);
        if (*at_ == '.') {
            conversion += *at_++;
            take_number(conversion);
        }
        while (*at_ != '\0' && std::strchr("hlLqjzt", *at_) != nullptr) size += *at_++;
        const char letter = *at_;
        if (letter != '\0') ++at_;
        const Argument *argument =
            letter != '\0' && std::strchr("diouxXcsfFeEgGaAp", letter) != nullptr ? next() : nullptr;
        if (argument == nullptr) {
            to_.append(start, at_);  // not a conversion, or nothing to convert
            return;
        }
        convert(*argument, conversion, size, letter);
    }

    void convert(const Argument &argument, const std::string &conversion, const std::string &size,
                 char letter) {
        const auto wide = (long long)(argument.integer());
        switch (letter) {
            case 'd':
            case 'i': append(to_, conversion + "lld", narrowed(wide, size)); break;
            case 'o':
            case 'u':
            case 'x':
            case 'X': append(to_, conversion + "ll" + letter, cut(wide, size)); break;
            case 'c': append(to_, conversion + "c", int(wide)); break;
            case 'p': append(to_, conversion + "p", reinterpret_cast<void *>(argument.integer())); break;
            case 's':
                append(to_, conversion + "s", argument.kind == TEXT ? argument.text.c_str() : "(null)");
                break;
            default: append(to_, conversion + letter, argument.number());
        }
    }

    static long long narrowed(long long value, const std::string &size) {
        if (size == "hh") return int8_t(value);
        if (size == "h") return int16_t(value);
        return size.empty() ? int32_t(value) : value;
    }
    static unsigned long long cut(long long value, const std::string &size) {
        if (size == "hh") return uint8_t(value);
        if (size == "h") return uint16_t(value);
        return size.empty() ? uint32_t(value) : (unsigned long long)(value);
    }

    const char *at_;
    const std::vector<Argument> &arguments_;
    std::string &to_;
    size_t next_ = 0;
};

}  // namespace

std::string text_of_records(const char *records, const PrintfHeader &printf_header) {
    std::string text;
    Reader all(records, std::min(printf_header.used, printf_header.capacity));
    while (all.left() >= sizeof(uint64_t)) {
        Reader peek = all;
        const uint64_t head = peek.word(), bytes = head & 0xffffffff, count = head >> 32;
        if (bytes < 2 * sizeof(uint64_t) || bytes > all.left()) break;  // a record that did not fit
        Reader record = all.part(bytes);
        record.word();
        const std::string format = record.text();
        std::vector<Argument> arguments;
        while (arguments.size() < count && record.left() >= sizeof(uint64_t)) {
            Argument argument{Kind(record.word()), 0, {}};
            if (argument.kind == TEXT) {
                argument.text = record.text();
            } else {
                argument.bits = record.word();
            }
            arguments.push_back(argument);
        }
        Formatter(format, arguments, text).run();
    }
    if (printf_header.used > printf_header.capacity) text += "\n... output truncated\n";
    return text;
}

}  // namespace pk::kernels
