// Sorting and searching on the CPU: the entries; sort_rows.cpp sorts, by way of common/sort.cpp.
#include "common/sort.h"

// The entries of each type: pk_sort_f32, pk_argsort_f32 and so on.
#define PK_ENTRY(t, T, encoding)                                                                             \
    extern "C" int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                       \
                                   const pk_options *options, pk_report *report) {                           \
        const auto check = [&] {                                                                             \
            return pk::SortRequest({{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, out);           \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::sort);                                              \
    }                                                                                                        \
    extern "C" int32_t pk_argsort_##t(const T *in, int64_t *order, int64_t rows, int64_t columns,            \
                                      int64_t limit, int64_t descending, const pk_options *options,          \
                                      pk_report *report) {                                                   \
        const auto check = [&] {                                                                             \
            return pk::ArgsortRequest({{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, order,       \
                                      limit, descending != 0);                                               \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::argsort);                                           \
    }                                                                                                        \
    extern "C" int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *indices, \
                                           int64_t count, int64_t right, const pk_options *options,          \
                                           pk_report *report) {                                              \
        const auto check = [&] {                                                                             \
            return pk::SearchRequest({sizeof(T), pk::Encoding::encoding}, sorted, size, values, indices,     \
                                     count, right != 0);                                                     \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::search);                                            \
    }                                                                                                        \
    extern "C" int32_t pk_unique_##t(const T *in, int64_t size, int64_t flags, T *values, int64_t *index,    \
                                     int64_t *inverse, int64_t *counts, int64_t *unique_count,               \
                                     const pk_options *options, pk_report *report) {                         \
        const auto check = [&] {                                                                             \
            return pk::UniqueRequest({{sizeof(T), pk::Encoding::encoding}, in, 1, size}, flags, values,      \
                                     index, inverse, counts, unique_count);                                  \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::find_unique);                                       \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_sort(const pk_operand *operands, int64_t rows, int64_t columns,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::sort_request(operands, rows, columns, 0); }, pk::sort);
}

extern "C" int32_t pk_argsort(const pk_operand *operands, int64_t rows, int64_t columns, int64_t limit,
                              int64_t descending, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::argsort_request(operands, rows, columns, limit, descending != 0, 0); }, pk::argsort);
}
