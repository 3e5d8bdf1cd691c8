// Calls an entry with the arguments of a request.
#include <cfenv>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/call/status.h"
#include "common/requests.h"

namespace pk {

namespace {

int32_t call_loop(const RequestArguments &arguments, pk_report *report) {
    return guarded([&] {
        const int64_t count = arguments.operand_count;
        require(arguments.loop != nullptr && arguments.operands != nullptr,
                "a loop, or its operands, is a null pointer");
        require(count >= 1 && count <= PK_MAX_LOOP_OPERANDS, "a loop has too many operands, or none");
        char *addresses[PK_MAX_LOOP_OPERANDS];
        for (int64_t i = 0; i < count; ++i)
            addresses[i] = reinterpret_cast<char *>(arguments.operands[i].address);
        std::feclearexcept(FE_ALL_EXCEPT);
        arguments.loop(addresses, arguments.sizes, arguments.strides, arguments.data);
        report->exceptions = (std::fetestexcept(FE_DIVBYZERO) != 0 ? PK_FPE_DIVIDE_BY_ZERO : 0) |
                             (std::fetestexcept(FE_OVERFLOW) != 0 ? PK_FPE_OVERFLOW : 0) |
                             (std::fetestexcept(FE_INVALID) != 0 ? PK_FPE_INVALID : 0);
        std::feclearexcept(FE_ALL_EXCEPT);
    });
}

template <class T>
T argument_of(uint64_t word) {
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<T>(word);
    } else if constexpr (std::is_floating_point_v<T>) {
        T number;
        std::memcpy(&number, &word, sizeof(number));
        return number;
    } else {
        return T(word);
    }
}

// Calls an entry whose last arguments are options and report; the others are words.
template <class... Arguments, size_t... INDICES>
int32_t call_with_words(int32_t (*entry)(Arguments...), const uint64_t *words, const pk_options *options,
                        pk_report *report, std::index_sequence<INDICES...>) {
    using Types = std::tuple<Arguments...>;
    return entry(argument_of<std::tuple_element_t<INDICES, Types>>(words[INDICES])..., options, report);
}

template <class... Arguments>
int32_t call_with_words(int32_t (*entry)(Arguments...), const uint64_t *words, const pk_options *options,
                        pk_report *report) {
    constexpr size_t COUNT = sizeof...(Arguments) - 2;
    static_assert(COUNT <= PK_MAX_REQUEST_ARGUMENTS);
    return call_with_words(entry, words, options, report, std::make_index_sequence<COUNT>());
}

// Calls one of the entries pk_name_t, that of the pk_type in the first word; a bool is called as u8.
#define PK_CALL_OF_TYPE(name)                                                                 \
    switch (words[0]) {                                                                       \
        case PK_INT8: return call_with_words(pk_##name##_i8, words + 1, options, report);     \
        case PK_INT16: return call_with_words(pk_##name##_i16, words + 1, options, report);   \
        case PK_INT32: return call_with_words(pk_##name##_i32, words + 1, options, report);   \
        case PK_INT64: return call_with_words(pk_##name##_i64, words + 1, options, report);   \
        case PK_BOOL:                                                                         \
        case PK_UINT8: return call_with_words(pk_##name##_u8, words + 1, options, report);    \
        case PK_UINT16: return call_with_words(pk_##name##_u16, words + 1, options, report);  \
        case PK_UINT32: return call_with_words(pk_##name##_u32, words + 1, options, report);  \
        case PK_UINT64: return call_with_words(pk_##name##_u64, words + 1, options, report);  \
        case PK_FLOAT16: return call_with_words(pk_##name##_f16, words + 1, options, report); \
        case PK_FLOAT32: return call_with_words(pk_##name##_f32, words + 1, options, report); \
        case PK_FLOAT64: return call_with_words(pk_##name##_f64, words + 1, options, report); \
        default: return unknown_type();                                                       \
    }

int32_t unknown_type() {
    return guarded([] { require(false, "the type of a request is unknown"); });
}

}  // namespace

int32_t call_entry(const pk_request &request, const pk_options *options, pk_report *report) {
    const RequestArguments a(request);
    const uint64_t *const words = request.arguments;
    switch (request.entry) {
        case PK_REQUEST_EVALUATE:
            return pk_evaluate(a.program, a.instruction_count, a.operands, a.operand_count, a.shape,
                               a.dimensions, options, a.exceptions, report);
        case PK_REQUEST_REDUCE:
            return pk_reduce(a.reductions, a.program, a.instruction_count, a.operands, a.operand_count,
                             a.shape, a.dimensions, a.exceptions, options, report);
        case PK_REQUEST_REDUCE_SEVERAL:
            return pk_reduce_several(a.reductions, a.reduction_count, a.program, a.instruction_count,
                                     a.operands, a.operand_count, a.shape, a.dimensions, a.exceptions,
                                     options, report);
        case PK_REQUEST_LOOP: return call_loop(a, report);
        case PK_REQUEST_SCAN: return call_with_words(pk_scan, words, options, report);
        case PK_REQUEST_TAKE: return call_with_words(pk_take, words, options, report);
        case PK_REQUEST_PUT: return call_with_words(pk_put, words, options, report);
        case PK_REQUEST_INTERP: return call_with_words(pk_interp, words, options, report);
        case PK_REQUEST_EXTENT: return call_with_words(pk_extent, words, options, report);
        case PK_REQUEST_HISTOGRAM: return call_with_words(pk_histogram, words, options, report);
        case PK_REQUEST_HISTOGRAM_OF_EXTENT:
            return call_with_words(pk_histogram_of_extent, words, options, report);
        case PK_REQUEST_WEIGHTED_HISTOGRAM:
            return call_with_words(pk_weighted_histogram, words, options, report);
        case PK_REQUEST_DIGITIZE: return call_with_words(pk_digitize, words, options, report);
        case PK_REQUEST_RANDOM: return call_with_words(pk_random, words, options, report);
        case PK_REQUEST_GRAY: return call_with_words(pk_gray, words, options, report);
        case PK_REQUEST_LOOKUP: return call_with_words(pk_lookup, words, options, report);
        case PK_REQUEST_RESIZE: return call_with_words(pk_resize, words, options, report);
        case PK_REQUEST_FILTER: return call_with_words(pk_filter, words, options, report);
        case PK_REQUEST_RUN_BLOCKS: return call_with_words(pk_run_blocks, words, options, report);
        case PK_REQUEST_RUN_KERNELS: return call_with_words(pk_run_kernels, words, options, report);
        case PK_REQUEST_SORT: PK_CALL_OF_TYPE(sort)
        case PK_REQUEST_ARGSORT: PK_CALL_OF_TYPE(argsort)
        case PK_REQUEST_SEARCHSORTED: PK_CALL_OF_TYPE(searchsorted)
        case PK_REQUEST_UNIQUE: PK_CALL_OF_TYPE(unique)
        case PK_REQUEST_SELECT: PK_CALL_OF_TYPE(select)
        case PK_REQUEST_MATMUL:
            if (words[0] == PK_BOOL) return call_with_words(pk_matmul_bool, words + 1, options, report);
            PK_CALL_OF_TYPE(matmul)
        default: return guarded([] { ensure(false, "the entry of a request is checked"); });
    }
}

}  // namespace pk
