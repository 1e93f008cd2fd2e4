/* Sixteen lanes in two AVX2 registers. vf: floats, vi: 32-bit integers, vb: 64 bytes. */

#include <immintrin.h>

typedef struct { __m256 a, b; } vf;
typedef struct { __m256i a, b; } vi;
typedef vi vb;

#define EACH(type, left, right) ((type){(left), (right)})

enum { SUMS = 6, VECTORS = 5 }; /* rows whose sums grow side by side; vectors that do */

INLINE vf vf_load(const float *p) { return EACH(vf, _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
INLINE void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v.a); _mm256_storeu_ps(p + 8, v.b); }
INLINE vf vf_set(float x) { return EACH(vf, _mm256_set1_ps(x), _mm256_set1_ps(x)); }
INLINE vf vf_add(vf x, vf y) { return EACH(vf, _mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)); }
INLINE vf vf_sub(vf x, vf y) { return EACH(vf, _mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)); }
INLINE vf vf_mul(vf x, vf y) { return EACH(vf, _mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)); }
INLINE vf vf_div(vf x, vf y) { return EACH(vf, _mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)); }
INLINE vf vf_fma(vf x, vf y, vf z) {
    return EACH(vf, _mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
INLINE vf vf_max(vf x, vf y) { return EACH(vf, _mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)); }
INLINE vf vf_abs(vf x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return EACH(vf, _mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
/* Lanes folded in halves: i with i + 8, then i + 4, i + 2, i + 1. */
#define FOLDED(NAME, OP256, OP128) \
    INLINE float NAME(vf v) { \
        __m256 e = OP256(v.a, v.b); \
        __m128 q = OP128(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1)); \
        q = OP128(q, _mm_movehl_ps(q, q)); \
        return _mm_cvtss_f32(OP128(q, _mm_movehdup_ps(q))); \
    }
FOLDED(vf_folded_sum, _mm256_add_ps, _mm_add_ps)
FOLDED(vf_folded_max, _mm256_max_ps, _mm_max_ps)
INLINE vf vf_negate(vf x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return EACH(vf, _mm256_xor_ps(sign, x.a), _mm256_xor_ps(sign, x.b));
}
INLINE vf vf_half(const uint16_t *p) {
    return EACH(vf, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}
INLINE void vf_store_half(uint16_t *p, vf v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}
INLINE __m256 brain8(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE vf vf_brain(const uint16_t *p) { return EACH(vf, brain8(p), brain8(p + 8)); }
INLINE vi vi_u8(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return EACH(vi, _mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
}
INLINE vi vi_i8(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return EACH(vi, _mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}

INLINE vi vi_set(int32_t x) { return EACH(vi, _mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
INLINE vf vf_of_bits(vi v) {
    return EACH(vf, _mm256_castsi256_ps(v.a), _mm256_castsi256_ps(v.b));
}
INLINE vf vi_floats(vi v) { return EACH(vf, _mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)); }
/* By the rounding mode, which every thread sets to nearest-even. */
INLINE vi vf_round(vf v) { return EACH(vi, _mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b)); }
INLINE int32_t vi_sum(vi v) {
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)lanes, _mm256_add_epi32(v.a, v.b));
    for (int i = 0; i < 8; i++) sum += lanes[i];
    return sum;
}
INLINE void vi_store_i8(int8_t *p, vi v) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xD8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)p, bytes);
}
INLINE __m256 power8(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
INLINE vf vf_power_of_two(vi n) { return EACH(vf, power8(n.a), power8(n.b)); }

INLINE vb vb_load(const uint8_t *p) {
    return EACH(vb, _mm256_loadu_si256((const __m256i *)p),
                _mm256_loadu_si256((const __m256i *)(p + 32)));
}
INLINE vb vb_and(vb v, uint8_t mask) {
    const __m256i m = _mm256_set1_epi8((char)mask);
    return EACH(vb, _mm256_and_si256(v.a, m), _mm256_and_si256(v.b, m));
}
INLINE vb vb_or(vb x, vb y) {
    return EACH(vb, _mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b));
}
/* Each byte shifted by `by` (left if positive), then masked: no bit of a neighbour may survive. */
INLINE vb vb_shift_and(vb v, int by, uint8_t mask) {
    if (by > 0) v = EACH(vb, _mm256_slli_epi16(v.a, by), _mm256_slli_epi16(v.b, by));
    if (by < 0) v = EACH(vb, _mm256_srli_epi16(v.a, -by), _mm256_srli_epi16(v.b, -by));
    return vb_and(v, mask);
}
/* Sums of products in 16 bits, of pairs: of the 4 bytes of codes (unsigned) that a 32-bit lane has,
   the first two and the last two, times x (signed, the same 4 for each lane). */
#define NARROW
typedef vi vn;
INLINE __m256i four_of(const int8_t *x) {
    int32_t four;
    __builtin_memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
}
/* See gemm.inc.h. */
#define WAITS(value) __asm__("" : "+m"(value))
#define AFRESH(pointer) __asm__ volatile("" : "+r"(pointer))
/* Additions stay in the order they are written in: of a tree, which compilers make of them, the
   products have no place in registers. */
#define IN_ORDER(v) __asm__("" : "+x"((v).a), "+x"((v).b))
INLINE vn vn_begin(vi sum) { (void)sum; return vi_set(0); }
INLINE vn vn_dot(vn n, vb u, const int8_t *x) {
    const __m256i xs = four_of(x);
    n = EACH(vn, _mm256_add_epi16(n.a, _mm256_maddubs_epi16(u.a, xs)),
             _mm256_add_epi16(n.b, _mm256_maddubs_epi16(u.b, xs)));
    IN_ORDER(n);
    return n;
}
INLINE vi vn_end(vi sum, vn n) {
    const __m256i ones = _mm256_set1_epi16(1);
    return EACH(vi, _mm256_add_epi32(sum.a, _mm256_madd_epi16(n.a, ones)),
                _mm256_add_epi32(sum.b, _mm256_madd_epi16(n.b, ones)));
}
/* c[lane] += Σ over the lane's 4 bytes of (u − WIDE) · x. |u − 128| has its sign put to x, so that no
   pair of products is above 2 · 128 · 127. */
enum { WIDE = 128 };
INLINE __m256i dot_signed(__m256i c, __m256i u, __m256i xs) {
    const __m256i codes = _mm256_xor_si256(u, _mm256_set1_epi8((char)0x80));
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(xs, codes));
    return _mm256_add_epi32(c, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
INLINE vi vi_dot_wide(vi c, vb u, const int8_t *x) {
    const __m256i xs = four_of(x);
    c = EACH(vi, dot_signed(c.a, u.a, xs), dot_signed(c.b, u.b, xs));
    IN_ORDER(c);
    return c;
}
INLINE void prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
