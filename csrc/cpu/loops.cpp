// Selects the table of loops for this machine's instruction set.
#include <cstdlib>
#include <string>

#include "common/call/status.h"
#include "loops.h"

namespace pk {

#define PK_EACH_ISA(visit) visit(baseline)
#if defined(PK_HAVE_AVX2)
#undef PK_EACH_ISA
#define PK_EACH_ISA(visit) visit(baseline) visit(avx2)
#endif
#if defined(PK_HAVE_AVX512)
#undef PK_EACH_ISA
#define PK_EACH_ISA(visit) visit(baseline) visit(avx2) visit(avx512)
#endif

#define PK_DECLARE(isa)                          \
    void fill_operations_##isa(Loops &loops);    \
    void fill_casts_##isa(Loops &loops);         \
    void fill_reduce_##isa(Loops &loops);        \
    void fill_histogram_##isa(Loops &loops);     \
    void fill_matmul_##isa(Loops &loops);        \
    void fill_scan_##isa(Loops &loops);          \
    void fill_image_pixels_##isa(Loops &loops);  \
    void fill_image_filters_##isa(Loops &loops); \
    void fill_random_##isa(Loops &loops);
PK_EACH_ISA(PK_DECLARE)

static bool runs_baseline() { return true; }
#if defined(PK_HAVE_AVX2)
static bool runs_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
}
#endif
#if defined(PK_HAVE_AVX512)
static bool runs_avx512() {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

// The newest instruction set that this machine supports, or the one that PYCUDAKIT_ISA names.
static Loops choose() {
    const char *forced = std::getenv("PYCUDAKIT_ISA");
    const std::string wanted = forced == nullptr ? "" : forced;
    Loops chosen{};
    std::string available;
    bool found = false;
#define PK_CONSIDER(isa)                            \
    if (runs_##isa()) {                             \
        available += available.empty() ? "" : ", "; \
        available += #isa;                          \
        if (wanted.empty() || wanted == #isa) {     \
            fill_operations_##isa(chosen);          \
            fill_casts_##isa(chosen);               \
            fill_reduce_##isa(chosen);              \
            fill_histogram_##isa(chosen);           \
            fill_matmul_##isa(chosen);              \
            fill_scan_##isa(chosen);                \
            fill_image_pixels_##isa(chosen);        \
            fill_image_filters_##isa(chosen);       \
            fill_random_##isa(chosen);              \
            found = true;                           \
        }                                           \
    }
    PK_EACH_ISA(PK_CONSIDER)
    if (!found) {
        fail(PK_INVALID_ARGUMENT,
             "PYCUDAKIT_ISA is '" + wanted + "'; this machine and build have " + available);
    }
    return chosen;
}

const Loops &loops() {
    static const Loops chosen = choose();
    return chosen;
}

}  // namespace pk
