/* Sixteen lanes in one AVX-512 register. vf: floats, vi: 32-bit integers, vb: 64 bytes. */

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vb;

enum { SUMS = 8, VECTORS = 16 }; /* rows whose sums grow side by side; vectors that do */

INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
/* Lanes folded in halves: i with i + 8, then i + 4, i + 2, i + 1. */
#define FOLDED(NAME, OP256, OP128) \
    INLINE float NAME(vf v) { \
        __m256 e = OP256(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); \
        __m128 q = OP128(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1)); \
        q = OP128(q, _mm_movehl_ps(q, q)); \
        return _mm_cvtss_f32(OP128(q, _mm_movehdup_ps(q))); \
    }
FOLDED(vf_folded_sum, _mm256_add_ps, _mm_add_ps)
FOLDED(vf_folded_max, _mm256_max_ps, _mm_max_ps)
INLINE vf vf_negate(vf a) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)0x80000000u)));
}
INLINE vf vf_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE void vf_store_half(uint16_t *p, vf v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE vf vf_brain(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE vi vi_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE vi vi_i8(const uint8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

INLINE vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vf vf_of_bits(vi v) { return _mm512_castsi512_ps(v); }
INLINE vf vi_floats(vi v) { return _mm512_cvtepi32_ps(v); }
INLINE vi vf_round(vf v) {
    return _mm512_cvt_roundps_epi32(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE int32_t vi_sum(vi v) { return _mm512_reduce_add_epi32(v); }
INLINE void vi_store_i8(int8_t *p, vi v) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(v));
}
INLINE vf vf_power_of_two(vi n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

INLINE vb vb_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
INLINE vb vb_and(vb v, uint8_t mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }
INLINE vb vb_or(vb a, vb b) { return _mm512_or_si512(a, b); }
/* Each byte shifted by `by` (left if positive), then masked: no bit of a neighbour may survive. */
INLINE vb vb_shift_and(vb v, int by, uint8_t mask) {
    return vb_and(by > 0 ? _mm512_slli_epi16(v, (unsigned)by)
                  : by < 0 ? _mm512_srli_epi16(v, (unsigned)-by) : v, mask);
}
/* c[lane] += Σ over the lane's 4 bytes of u (unsigned) · x (signed, the same 4 for each lane) */
INLINE vi vi_dot(vi c, vb u, const int8_t *x) {
    int32_t four;
    __builtin_memcpy(&four, x, 4);
    return _mm512_dpbusd_epi32(c, u, _mm512_set1_epi32(four));
}
enum { WIDE = 0 }; /* bytes of codes, all unsigned, are taken as they are */
INLINE vi vi_dot_wide(vi c, vb u, const int8_t *x) { return vi_dot(c, u, x); }
INLINE void prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
