// Entries that describe a library, the same in both: its ABI version, operations, threads and last error.
#include <cstdio>

#include "common/operations.h"
#include "status.h"
#include "thread_pool.h"

namespace pk {

template <class Op>
static pk_operation describe() noexcept {
    pk_operation operation{};
    std::snprintf(operation.name, sizeof(operation.name), "%s", Op::name);
    operation.arity = Op::arity;
    operation.types = Op::types;
    operation.returns_bool = Op::returns_bool;
    operation.quiet = !ops::raises<Op, float> && !ops::raises<Op, int32_t>;
    return operation;
}

static const pk_operation operations[] = {
#define PK_OP(name) describe<ops::name>(),
#include "ops.def"
};

}  // namespace pk

extern "C" int32_t pk_abi_version(int64_t *version) {
    return pk::guarded([&] {
        pk::require(version != nullptr, "version is a null pointer");
        *version = PK_ABI_VERSION;
    });
}

extern "C" int32_t pk_last_error(const char **message) {
    if (message == nullptr) return PK_INVALID_ARGUMENT;
    *message = pk::last_error();
    return PK_OK;
}

extern "C" int32_t pk_fail(int32_t status) {
    return pk::guarded([&] {
        pk::require(status > PK_OK && status <= PK_INTERNAL_ERROR, "status is not one of a failure");
        if (status == PK_OUT_OF_MEMORY) throw std::bad_alloc();
        pk::fail(pk_status(status), "failed on purpose with status " + std::to_string(status));
    });
}

extern "C" int32_t pk_operation_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::ops::count;
    });
}

extern "C" int32_t pk_operation_info(int64_t index, pk_operation *operation) {
    return pk::guarded([&] {
        pk::require(operation != nullptr, "operation is a null pointer");
        pk::require(index >= 0 && index < pk::ops::count, "there is no operation of that index");
        *operation = pk::operations[index];
    });
}

extern "C" int32_t pk_thread_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::thread_count();
    });
}
