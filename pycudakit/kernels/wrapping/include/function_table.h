// A table of the functions of a source: the types of their parameters as the compiler sees them, and a call
// of each that returns a status. Included before the source; read by ctypes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <type_traits>

namespace pk_table {

enum Kind : int32_t {
    OTHER,
    VOID,
    BOOL,
    INT,
    UINT,
    FLOAT,
    COMPLEX,
    STRUCT,
    POINTER,
    REFERENCE,
    FUNCTION,
    STREAM
};
enum Status : int32_t { OK, OUT_OF_MEMORY, CUDA_ERROR, EXCEPTION, RETURNED };

struct Layout;

// A type without const. A vector such as float4 has the kind of its components, and their number.
struct Type {
    int32_t kind, components, is_pointer, is_const;
    int64_t bytes;
    const Layout *layout;  // of a struct
};
struct Field {
    const char *name;
    Type type;
    int64_t offset, lengths[3];  // of an array's axes; 0 for none
};
struct Layout {
    const char *name;
    int64_t bytes, count;
    const Field *fields;
};
struct Function {
    const char *name;
    void *call;
    int64_t parameter_count, is_variadic, is_status;
    const Type *parameters;
    Type result;
};

// ---- Types ----

template <class T>
struct Fields {
    static constexpr const Layout *layout = nullptr;
};

template <class T>
struct Vector {
    static constexpr int components = 0;
};
// CUDA 13 has other names for double4 and vectors like it, beside these.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define PK_TABLE_VECTOR(name, element)       \
    template <>                              \
    struct Vector<name##1> {                 \
        using type = element;                \
        static constexpr int components = 1; \
    };                                       \
    template <>                              \
    struct Vector<name##2> {                 \
        using type = element;                \
        static constexpr int components = 2; \
    };                                       \
    template <>                              \
    struct Vector<name##3> {                 \
        using type = element;                \
        static constexpr int components = 3; \
    };                                       \
    template <>                              \
    struct Vector<name##4> {                 \
        using type = element;                \
        static constexpr int components = 4; \
    };
PK_TABLE_VECTOR(char, signed char)
PK_TABLE_VECTOR(uchar, unsigned char)
PK_TABLE_VECTOR(short, short)
PK_TABLE_VECTOR(ushort, unsigned short)
PK_TABLE_VECTOR(int, int)
PK_TABLE_VECTOR(uint, unsigned int)
PK_TABLE_VECTOR(long, long)
PK_TABLE_VECTOR(ulong, unsigned long)
PK_TABLE_VECTOR(longlong, long long)
PK_TABLE_VECTOR(ulonglong, unsigned long long)
PK_TABLE_VECTOR(float, float)
PK_TABLE_VECTOR(double, double)
#undef PK_TABLE_VECTOR
#pragma GCC diagnostic pop

// Half precision: specialized by the generated source where a header of it is included.
template <class T>
struct Half {
    static constexpr bool value = false;
};

template <class T>
constexpr int32_t kind_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_void_v<U>) {
        return VOID;
    } else if constexpr (std::is_same_v<U, bool>) {
        return BOOL;
    } else if constexpr (std::is_same_v<U, long double>) {
        return OTHER;
    } else if constexpr (std::is_floating_point_v<U> || Half<U>::value) {
        return FLOAT;
    } else if constexpr (std::is_enum_v<U>) {
        return std::is_signed_v<std::underlying_type_t<U>> ? INT : UINT;
    } else if constexpr (std::is_integral_v<U>) {
        return std::is_signed_v<U> ? INT : UINT;
    } else if constexpr (std::is_same_v<U, cudaStream_t>) {
        return STREAM;
    } else if constexpr (std::is_function_v<std::remove_pointer_t<U>>) {
        return FUNCTION;
    } else if constexpr (std::is_pointer_v<U>) {
        return POINTER;
    } else if constexpr (std::is_reference_v<U>) {
        return REFERENCE;
    } else if constexpr (Vector<U>::components != 0) {
        return kind_of<typename Vector<U>::type>();
    } else {
        return Fields<U>::layout != nullptr ? STRUCT : OTHER;
    }
}

template <class T>
constexpr int64_t bytes_of() {
    if constexpr (std::is_void_v<T> || std::is_function_v<T>) {
        return 0;
    } else {
        return int64_t(sizeof(T));
    }
}

template <class T, class = void>
struct IsComplete : std::false_type {};
template <class T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

template <class T>
constexpr Type value_type() {
    using U = std::remove_cv_t<T>;
    if constexpr (!std::is_void_v<U> && !IsComplete<U>::value) {
        return {OTHER, 0, 0, 0, 0, nullptr};
    } else {
        return {kind_of<U>(), Vector<U>::components, 0, std::is_const_v<T>, bytes_of<U>(), Fields<U>::layout};
    }
}

template <class T>
constexpr Type type_of() {
    using U = std::remove_cv_t<T>;
    using Pointed = std::remove_pointer_t<U>;
    if constexpr (std::is_pointer_v<U> && kind_of<U>() == POINTER) {
        Type type = value_type<Pointed>();
        type.is_pointer = 1;
        return type;
    } else if constexpr (std::is_reference_v<U>) {
        return {REFERENCE, 0, 0, 0, 0, nullptr};
    } else {
        return value_type<U>();
    }
}

// ---- Calls ----

// The part of a name after its namespaces.
inline const char *unqualified(const char *name) {
    const char *colon = strrchr(name, ':');
    return colon == nullptr ? name : colon + 1;
}

inline char *message() {
    static thread_local char text[512];
    return text;
}

inline int32_t failed(Status status, const char *why) {
    snprintf(message(), 512, "%s", why);
    return status;
}

inline int32_t cuda_failed(cudaError_t error) {
    const char *more = "";
#if defined(PYCUDAKIT_CPU)
    more = pk_error_text;
#endif
    snprintf(message(), 512, "%s (%s)%s%s", cudaGetErrorString(error), cudaGetErrorName(error),
             more[0] == 0 ? "" : ": ", more);
    return error == cudaErrorMemoryAllocation ? OUT_OF_MEMORY : CUDA_ERROR;
}

// Structs, vectors and half-precision numbers are passed by their addresses.
template <class T>
struct Passed {
    static constexpr bool by_address = std::is_class_v<T>;
    using type = std::conditional_t<by_address, const void *, T>;
    static T value(type passed) {
        if constexpr (by_address) {
            T copy;
            memcpy((void *)&copy, passed, sizeof(T));
            return copy;
        } else {
            return static_cast<T>(passed);
        }
    }
};

template <class R>
constexpr bool has_result = std::is_arithmetic_v<R> || std::is_enum_v<R> || std::is_pointer_v<R>;

template <bool is_status, class R, class... P>
int32_t run(R (*function)(P...), void *result, typename Passed<P>::type... values) noexcept {
    (void)result;
    (void)cudaGetLastError();
#if defined(PYCUDAKIT_CPU)
    pk_kernel_error = cudaSuccess;
    pk_error_text[0] = 0;
#endif
    int64_t status = 0;
    try {
        if constexpr (is_status) {
            status = static_cast<int64_t>(function(Passed<P>::value(values)...));
        } else if constexpr (has_result<R>) {
            *static_cast<std::remove_cv_t<R> *>(result) = function(Passed<P>::value(values)...);
        } else {
            function(Passed<P>::value(values)...);
        }
    } catch (const std::bad_alloc &) {
        return failed(OUT_OF_MEMORY, "out of host memory (std::bad_alloc)");
    } catch (const std::exception &error) {
        return failed(EXCEPTION, error.what());
    } catch (...) {
        return failed(EXCEPTION, "a C++ exception that is no std::exception");
    }
    if (is_status && status != 0) {
        (void)cudaGetLastError();
        if constexpr (std::is_same_v<R, cudaError_t>) return cuda_failed(static_cast<cudaError_t>(status));
        snprintf(message(), 512, "%lld", static_cast<long long>(status));
        return RETURNED;
    }
    const cudaError_t waited = cudaDeviceSynchronize(), last = cudaGetLastError();
    if (waited != cudaSuccess) return cuda_failed(waited);
    return last == cudaSuccess ? int32_t(OK) : cuda_failed(last);
}

template <class F, F function, bool is_tagged>
struct Signature;

template <class R, class... P, R (*function)(P...), bool is_tagged>
struct Signature<R (*)(P...), function, is_tagged> {
    static constexpr bool is_status = std::is_same_v<R, cudaError_t> || is_tagged;
    static constexpr Type parameters[] = {type_of<P>()..., Type{}};

    static int32_t call(void *result, typename Passed<P>::type... values) noexcept {
        return run<is_status, R, P...>(function, result, values...);
    }
    static Function row(const char *name) {
#if defined(PK_TABLE_TYPES_ALONE)
        void *const address = nullptr;
#else
        void *const address = reinterpret_cast<void *>(&call);
#endif
        return {name, address, int64_t(sizeof...(P)), 0, is_status, parameters, type_of<R>()};
    }
};

template <class R, class... P, R (*function)(P...) noexcept, bool is_tagged>
struct Signature<R (*)(P...) noexcept, function, is_tagged>
    : Signature<R (*)(P...), static_cast<R (*)(P...)>(function), is_tagged> {};

template <class R, class... P, R (*function)(P..., ...), bool is_tagged>
struct Signature<R (*)(P..., ...), function, is_tagged> {
    static Function row(const char *name) { return {name, nullptr, 0, 1, 0, nullptr, type_of<R>()}; }
};

}  // namespace pk_table

#define PK_TABLE_EXPORT extern "C" __attribute__((visibility("default")))
#define PK_TABLE_FIELD(S, member)                                                                           \
    {                                                                                                       \
        #member, pk_table::value_type<std::remove_all_extents_t<decltype(S::member)>>(),                    \
            offsetof(S, member), {                                                                          \
            int64_t(std::extent_v<decltype(S::member), 0>), int64_t(std::extent_v<decltype(S::member), 1>), \
                int64_t(std::extent_v<decltype(S::member), 2>)                                              \
        }                                                                                                   \
    }
#define PK_TABLE_FUNCTION(function, is_status) \
    pk_table::Signature<decltype(&function), &function, is_status>::row(#function)

// Defined after the source.
PK_TABLE_EXPORT const pk_table::Function *pk_table_functions(int64_t *count);

PK_TABLE_EXPORT const char *pk_table_message() { return pk_table::message(); }

// The call of a function, or null.
PK_TABLE_EXPORT void *pk_table_call(const char *name) {
    int64_t count = 0;
    const pk_table::Function *functions = pk_table_functions(&count);
    for (int64_t i = 0; i < count; ++i) {
        if (strcmp(pk_table::unqualified(functions[i].name), name) == 0) return functions[i].call;
    }
    return nullptr;
}

// The number of a function's parameters; -1 if there is no such function.
PK_TABLE_EXPORT int64_t pk_table_parameters(const char *name) {
    int64_t count = 0;
    const pk_table::Function *functions = pk_table_functions(&count);
    for (int64_t i = 0; i < count; ++i) {
        if (strcmp(pk_table::unqualified(functions[i].name), name) == 0) return functions[i].parameter_count;
    }
    return -1;
}

// The number of GPUs.
PK_TABLE_EXPORT int32_t pk_table_devices() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
