// Order-preserving keys: the bits of elements as unsigned integers in the elements' order, for radix sorts,
// radix select, extents and rank filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "portable.h"
#include "types.h"

namespace pk {

// The unsigned integer with the size of an element.
template <class T>
using KeyOf = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

// Bits of keys, and of IEEE's floats, of the size of Key.
template <class Key>
struct KeyBits {
    static constexpr Key ALL = Key(~Key(0));
    static constexpr Key TOP = Key(Key(1) << (8 * sizeof(Key) - 1));
    static constexpr int MANTISSA = sizeof(Key) == 2 ? 10 : sizeof(Key) == 4 ? 23 : sizeof(Key) == 8 ? 52 : 0;
    static constexpr Key INFINITE = Key((ALL >> MANTISSA << MANTISSA) & Key(~TOP));
    static constexpr Key NAN_BITS = Key(INFINITE | (INFINITE >> 1 & Key(~INFINITE)));  // the canonical NaN
};

// The keys of floats: -0.0 comes before 0.0, and NaN beyond the infinity of its sign. float_of_key() is the
// inverse of ordered_key().
template <class Key>
PK_HD Key ordered_key(Key bits) {
    using Bits = KeyBits<Key>;
    return Key(bits ^ select((bits & Bits::TOP) != 0, Bits::ALL, Bits::TOP));
}
template <class Key>
PK_HD Key float_of_key(Key key) {
    using Bits = KeyBits<Key>;
    return Key(key ^ select((key & Bits::TOP) != 0, Bits::TOP, Bits::ALL));
}

// The same as a signed integer, less 2^(bits - 1). Vector instructions compare signed integers.
template <class Key>
PK_HD std::make_signed_t<Key> signed_key(Key bits) {
    using Signed = std::make_signed_t<Key>;
    const auto value = Signed(bits);
    return Signed(value ^ (value >> (8 * sizeof(Key) - 1) & Signed(KeyBits<Key>::ALL >> 1)));
}

template <class Key>
PK_HD bool is_nan_bits(Key bits) {
    return Key(bits & Key(~KeyBits<Key>::TOP)) > KeyBits<Key>::INFINITE;
}

// The same keys, but every NaN has the largest key.
template <class Key>
PK_HD Key ordered_key_nan_last(Key bits) {
    return select(is_nan_bits(bits), KeyBits<Key>::ALL, ordered_key(bits));
}

// Keys whose encoding is a run-time value, and their inverse.
template <class Key>
PK_HD Key key_of(Encoding encoding, Key bits) {
    if (encoding == Encoding::natural) return bits;
    if (encoding == Encoding::integer) return Key(bits ^ KeyBits<Key>::TOP);
    return ordered_key_nan_last(bits);
}
template <class Key>
PK_HD Key bits_of_key(Encoding encoding, Key key) {
    if (encoding == Encoding::natural) return key;
    if (encoding == Encoding::integer) return Key(key ^ KeyBits<Key>::TOP);
    return float_of_key(key);
}

// The element type, as far as it matters for the order.
struct KeyType {
    int bytes;
    bool is_signed, is_float;

    constexpr KeyType(size_t bytes, Encoding encoding)
        : bytes(int(bytes)),
          is_signed(encoding == Encoding::integer),
          is_float(encoding == Encoding::floating) {}
};

// The keys of a sort. NaN has one key, the last one, in ascending and descending order.
template <class Bits, bool is_float>
struct KeyEncoding {
    using Key = Bits;
    static constexpr bool of_floats = is_float;
    static constexpr Key TOP = KeyBits<Key>::TOP, ALL = KeyBits<Key>::ALL;
    static constexpr Key INFINITE = KeyBits<Key>::INFINITE, NAN_BITS = KeyBits<Key>::NAN_BITS;

    Key sign_mask;        // of integers: the sign bit
    Key descending_mask;  // all ones for descending order
    bool one_zero;        // -0.0 and 0.0 have the same key; else -0.0 comes first

    PK_HD Key key(Key bits) const {
        if constexpr (is_float) {
            if (is_nan_bits(bits)) return Key(NAN_BITS | TOP);
            if (one_zero && bits == TOP) bits = 0;
            return Key(ordered_key(bits) ^ descending_mask);
        } else {
            return Key(bits ^ sign_mask ^ descending_mask);
        }
    }

    // The inverse of key(), except for NaN and merged zeros.
    PK_HD Key bits(Key key) const {
        if constexpr (is_float) {
            return float_of_key(key);
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
