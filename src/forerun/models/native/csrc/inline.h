/* Words of the compiler that the kernels use. */

#ifndef FORERUN_INLINE_H
#define FORERUN_INLINE_H

#define INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE __attribute__((noinline))
#if defined(FR_PLAIN)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
