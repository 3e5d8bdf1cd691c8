// Checks the arguments of pk_matmul_* and pk_open_cublas.
#include "matmul.h"

#include "common/call/status.h"
#include "types.h"

namespace pk::matmul {

static int64_t times(int64_t x, int64_t y) {
    return checked_product(x, y, "a matrix has more elements than 64 bits can count");
}

Product::Product(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k,
                 const int64_t *index_pairs, int64_t batch, int64_t flags, int64_t precision, int64_t *method,
                 size_t item)
    : a(a),
      b(b),
      c(c),
      m(m),
      n(n),
      k(k),
      index_pairs(index_pairs),
      batch(batch),
      transposed_a((flags & PK_MATMUL_TRANSPOSE_A) != 0),
      transposed_b((flags & PK_MATMUL_TRANSPOSE_B) != 0),
      precision(precision),
      method(method) {
    require(m >= 0 && n >= 0 && k >= 0 && batch >= 0, "a size is negative");
    require((flags & ~int64_t(PK_MATMUL_TRANSPOSE_A | PK_MATMUL_TRANSPOSE_B)) == 0,
            "there are unknown flags");
    require(precision >= PK_PRECISION_HIGHEST && precision <= PK_PRECISION_BF16, "the precision is unknown");
    require(method != nullptr, "method is a null pointer");
    const int64_t results = times(times(m, n), batch), of_a = times(m, k), of_b = times(k, n);
    times(results, sizeof(double));
    require(batch == 0 || index_pairs != nullptr, "index_pairs is a null pointer");
    require_array(a, results == 0 ? 0 : of_a, item, "a");
    require_array(b, results == 0 ? 0 : of_b, item, "b");
    require_array(c, results, item, "c");
    for (int64_t i = 0; i < 2 * batch; ++i) {
        require(index_pairs[i] >= 0, "an index of index_pairs is negative");
        times(times(index_pairs[i], i % 2 == 0 ? of_a : of_b), int64_t(item));
    }
}

Product product_of(const pk_operand *operands, int64_t m, int64_t n, int64_t k, const int64_t *index_pairs,
                   int64_t batch, int64_t flags, int64_t precision, int64_t *method, int32_t allowed_flags) {
    require(operands != nullptr, "operands is a null pointer");
    const pk_operand &a = operands[0], &b = operands[1], &c = operands[2];
    require(a.type >= 0 && a.type < PK_TYPE_COUNT, "operand 0 has an unknown type");
    require(b.type == a.type && c.type == a.type, "the operands have different types");
    require(((a.flags | b.flags | c.flags) & ~allowed_flags) == 0, "an operand has unknown flags");
    require(a.flags == c.flags && b.flags == c.flags, "some operands are on a device, and others are not");
    const auto at = [](const pk_operand &operand) { return reinterpret_cast<void *>(operand.address); };
    Product product(at(a), at(b), at(c), m, n, k, index_pairs, batch, flags, precision, method,
                    size_t(size_of(a.type)));
    product.type = a.type;
    product.is_on_device = (c.flags & PK_ON_DEVICE) != 0;
    return product;
}

std::string checked_path(const uint8_t *path, int64_t length, const int64_t *found) {
    require(found != nullptr, "found is a null pointer");
    require(length >= 0 && (length == 0 || path != nullptr), "path is a null pointer");
    return std::string(reinterpret_cast<const char *>(path), size_t(length));
}

}  // namespace pk::matmul
