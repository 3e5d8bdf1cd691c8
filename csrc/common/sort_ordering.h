// Order-preserving encodings: maps the bits of elements to unsigned integers in the order of the sort, as
// radix sorts need.
#pragma once

#include <cstdint>

#include "portable.h"
#include "types.h"

namespace pk {

// The element type, as far as it matters for the order.
struct KeyType {
    int bytes;
    bool is_signed, is_float;

    constexpr KeyType(size_t bytes, Encoding encoding)
        : bytes(int(bytes)),
          is_signed(encoding == Encoding::integer),
          is_float(encoding == Encoding::floating) {}
};

// Encodes the bits of an element as a key, and decodes them. NaN has one key, the last one, in ascending and
// descending order.
template <class Bits, bool is_float>
struct KeyEncoding {
    using Key = Bits;
    static constexpr bool of_floats = is_float;
    static constexpr Key TOP = Key(Key(1) << (8 * sizeof(Key) - 1));
    static constexpr int MANTISSA = sizeof(Key) == 2 ? 10 : sizeof(Key) == 4 ? 23 : sizeof(Key) == 8 ? 52 : 0;
    static constexpr Key ALL = Key(~Key(0));
    static constexpr Key INFINITE = Key((ALL >> MANTISSA << MANTISSA) & Key(~TOP));  // of floats
    static constexpr Key NAN_BITS = Key(INFINITE | (INFINITE >> 1 & Key(~INFINITE)));

    Key sign_mask;        // of integers: the sign bit
    Key descending_mask;  // all ones for descending order
    bool one_zero;        // -0.0 and 0.0 have the same key; else -0.0 comes first

    PK_HD Key key(Key bits) const {
        if constexpr (is_float) {
            if (Key(bits & Key(~TOP)) > INFINITE) return Key(NAN_BITS | TOP);
            if (one_zero && bits == TOP) bits = 0;
            return Key(bits ^ ((bits & TOP) != 0 ? ALL : TOP) ^ descending_mask);
        } else {
            return Key(bits ^ sign_mask ^ descending_mask);
        }
    }

    // The inverse of key(), except for NaN and merged zeros.
    PK_HD Key bits(Key key) const {
        if constexpr (is_float) {
            return Key(key ^ ((key & TOP) != 0 ? TOP : ALL));
        } else {
            return Key(key ^ sign_mask ^ descending_mask);
        }
    }
};

// Calls body(ordering) with the KeyEncoding of the type.
template <class Body>
void with_key_encoding(KeyType type, bool descending, bool one_zero, Body body) {
    auto call = [&](auto ordering) {
        using Order = decltype(ordering);
        using Key = typename Order::Key;
        ordering.sign_mask = type.is_signed ? Order::TOP : Key(0);
        ordering.descending_mask = descending ? Order::ALL : Key(0);
        ordering.one_zero = one_zero;
        body(ordering);
    };
    switch (type.bytes) {
        case 1: return call(KeyEncoding<uint8_t, false>{});
        case 2:
            return type.is_float ? call(KeyEncoding<uint16_t, true>{}) : call(KeyEncoding<uint16_t, false>{});
        case 4:
            return type.is_float ? call(KeyEncoding<uint32_t, true>{}) : call(KeyEncoding<uint32_t, false>{});
        default:
            return type.is_float ? call(KeyEncoding<uint64_t, true>{}) : call(KeyEncoding<uint64_t, false>{});
    }
}

// An encoding that knows only at run time whether elements are floats. It is as fast in code that waits for
// memory, and is compiled once for each width.
template <class Bits>
struct RuntimeKeyEncoding {
    using Key = Bits;
    using OfFloats = KeyEncoding<Bits, true>;
    using OfIntegers = KeyEncoding<Bits, false>;
    static constexpr Key TOP = OfFloats::TOP, ALL = OfFloats::ALL, NAN_BITS = OfFloats::NAN_BITS;

    bool of_floats;
    Key sign_mask, descending_mask;
    bool one_zero;

    PK_HD Key key(Key bits) const {
        return of_floats ? OfFloats{sign_mask, descending_mask, one_zero}.key(bits)
                         : OfIntegers{sign_mask, descending_mask, one_zero}.key(bits);
    }
    PK_HD Key bits(Key key) const {
        return of_floats ? OfFloats{sign_mask, descending_mask, one_zero}.bits(key)
                         : OfIntegers{sign_mask, descending_mask, one_zero}.bits(key);
    }
};

// Calls body(ordering) with the RuntimeKeyEncoding of the type.
template <class Body>
void with_runtime_key_encoding(KeyType type, bool descending, bool one_zero, Body body) {
    with_key_encoding(type, descending, one_zero, [&](auto known) {
        using Order = decltype(known);
        using Late = RuntimeKeyEncoding<typename Order::Key>;
        body(Late{Order::of_floats, known.sign_mask, known.descending_mask, known.one_zero});
    });
}

}  // namespace pk
