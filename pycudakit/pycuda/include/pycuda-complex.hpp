// Complex numbers in kernels: pycuda::complex<T>, with the operators and functions of std::complex.
#ifndef PYCUDA_COMPLEX_HPP
#define PYCUDA_COMPLEX_HPP

namespace pycuda {

template <class T>
struct alignas(2 * sizeof(T)) complex {
    typedef T value_type;

    __host__ __device__ complex(T real = T(), T imag = T()) : _M_re(real), _M_im(imag) {}
    template <class U>
    __host__ __device__ complex(const complex<U> &other) : _M_re(T(other.real())), _M_im(T(other.imag())) {}

    __host__ __device__ T real() const { return _M_re; }
    __host__ __device__ T imag() const { return _M_im; }
    __host__ __device__ T &real() { return _M_re; }
    __host__ __device__ T &imag() { return _M_im; }

    __host__ __device__ complex &operator+=(const complex &other) { return *this = *this + other; }
    __host__ __device__ complex &operator-=(const complex &other) { return *this = *this - other; }
    __host__ __device__ complex &operator*=(const complex &other) { return *this = *this * other; }
    __host__ __device__ complex &operator/=(const complex &other) { return *this = *this / other; }

    // Friends, not templates, so that numbers of other types are converted.
    friend __host__ __device__ complex operator+(const complex &a) { return a; }
    friend __host__ __device__ complex operator-(const complex &a) { return complex(-a._M_re, -a._M_im); }
    friend __host__ __device__ complex operator+(const complex &a, const complex &b) {
        return complex(a._M_re + b._M_re, a._M_im + b._M_im);
    }
    friend __host__ __device__ complex operator-(const complex &a, const complex &b) {
        return complex(a._M_re - b._M_re, a._M_im - b._M_im);
    }
    friend __host__ __device__ complex operator*(const complex &a, const complex &b) {
        return complex(a._M_re * b._M_re - a._M_im * b._M_im, a._M_re * b._M_im + a._M_im * b._M_re);
    }
    // Smith's algorithm (1962), as NumPy has it: no overflow of the divisor's square.
    friend __host__ __device__ complex operator/(const complex &a, const complex &b) {
        if (fabs(b._M_re) >= fabs(b._M_im)) {
            if (b._M_re == T() && b._M_im == T()) return complex(a._M_re / b._M_re, a._M_im / b._M_re);
            const T ratio = b._M_im / b._M_re, scale = T(1) / (b._M_re + b._M_im * ratio);
            return complex((a._M_re + a._M_im * ratio) * scale, (a._M_im - a._M_re * ratio) * scale);
        }
        const T ratio = b._M_re / b._M_im, scale = T(1) / (b._M_re * ratio + b._M_im);
        return complex((a._M_re * ratio + a._M_im) * scale, (a._M_im * ratio - a._M_re) * scale);
    }
    friend __host__ __device__ bool operator==(const complex &a, const complex &b) {
        return a._M_re == b._M_re && a._M_im == b._M_im;
    }
    friend __host__ __device__ bool operator!=(const complex &a, const complex &b) { return !(a == b); }

    T _M_re, _M_im;
};

template <class T> __host__ __device__ T real(const complex<T> &z) { return z.real(); }
template <class T> __host__ __device__ T imag(const complex<T> &z) { return z.imag(); }
template <class T> __host__ __device__ T abs(const complex<T> &z) { return T(hypot(z.real(), z.imag())); }
template <class T> __host__ __device__ T arg(const complex<T> &z) { return T(atan2(z.imag(), z.real())); }
template <class T> __host__ __device__ T norm(const complex<T> &z) {
    return z.real() * z.real() + z.imag() * z.imag();
}
template <class T> __host__ __device__ complex<T> conj(const complex<T> &z) {
    return complex<T>(z.real(), -z.imag());
}
template <class T> __host__ __device__ complex<T> polar(const T &modulus, const T &angle = T()) {
    return complex<T>(modulus * T(cos(angle)), modulus * T(sin(angle)));
}

template <class T> __host__ __device__ complex<T> exp(const complex<T> &z) {
    return polar(T(::exp(z.real())), z.imag());
}
template <class T> __host__ __device__ complex<T> log(const complex<T> &z) {
    return complex<T>(T(::log(abs(z))), arg(z));
}
template <class T> __host__ __device__ complex<T> log10(const complex<T> &z) {
    return log(z) / complex<T>(T(2.302585092994045684));
}
template <class T> __host__ __device__ complex<T> sin(const complex<T> &z) {
    return complex<T>(T(::sin(z.real()) * ::cosh(z.imag())), T(::cos(z.real()) * ::sinh(z.imag())));
}
template <class T> __host__ __device__ complex<T> cos(const complex<T> &z) {
    return complex<T>(T(::cos(z.real()) * ::cosh(z.imag())), T(-::sin(z.real()) * ::sinh(z.imag())));
}
template <class T> __host__ __device__ complex<T> sinh(const complex<T> &z) {
    return complex<T>(T(::sinh(z.real()) * ::cos(z.imag())), T(::cosh(z.real()) * ::sin(z.imag())));
}
template <class T> __host__ __device__ complex<T> cosh(const complex<T> &z) {
    return complex<T>(T(::cosh(z.real()) * ::cos(z.imag())), T(::sinh(z.real()) * ::sin(z.imag())));
}
template <class T> __host__ __device__ complex<T> tan(const complex<T> &z) { return sin(z) / cos(z); }
template <class T> __host__ __device__ complex<T> tanh(const complex<T> &z) { return sinh(z) / cosh(z); }
template <class T> __host__ __device__ complex<T> sqrt(const complex<T> &z) {
    const T x = z.real(), y = z.imag();
    if (x == T()) {
        const T root = T(::sqrt(fabs(y) / 2));
        return complex<T>(root, y < T() ? -root : root);
    }
    const T twice = T(::sqrt(2 * (abs(z) + fabs(x)))), half = twice / 2;
    return x > T() ? complex<T>(half, y / twice) : complex<T>(T(fabs(y)) / twice, y < T() ? -half : half);
}
template <class T> __host__ __device__ complex<T> pow(const complex<T> &base, const complex<T> &power) {
    return base == complex<T>() ? complex<T>() : exp(power * log(base));
}
template <class T> __host__ __device__ complex<T> pow(const complex<T> &base, const T &power) {
    return pow(base, complex<T>(power));
}
template <class T> __host__ __device__ complex<T> pow(const T &base, const complex<T> &power) {
    return pow(complex<T>(base), power);
}
template <class T> __host__ __device__ complex<T> pow(const complex<T> &base, int power) {
    complex<T> result(1), square = power < 0 ? complex<T>(1) / base : base;
    for (unsigned rest = power < 0 ? 0u - unsigned(power) : unsigned(power); rest; rest /= 2) {
        if (rest % 2) result *= square;
        square *= square;
    }
    return result;
}
template <class T> __host__ __device__ complex<T> fma(const complex<T> &a, const complex<T> &b, const complex<T> &c) {
    return a * b + c;
}

}  // namespace pycuda

#endif
