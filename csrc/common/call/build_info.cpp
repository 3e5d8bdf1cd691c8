// pk_build_info: how the library was built, from macros that CMake sets.
#include "status.h"

static const char text[] = "version: " PK_BUILD_VERSION
                           "\n"
                           "compiler: " PK_BUILD_COMPILER
                           "\n"
                           "cuda: " PK_BUILD_CUDA
                           "\n"
                           "architectures: " PK_BUILD_ARCHITECTURES
                           "\n"
                           "instruction sets: " PK_BUILD_ISAS
                           "\n"
                           "sanitizers: " PK_BUILD_SANITIZE;

extern "C" int32_t pk_build_info(const char **info) {
    return pk::guarded([&] {
        pk::require(info != nullptr, "text is a null pointer");
        *info = text;
    });
}
