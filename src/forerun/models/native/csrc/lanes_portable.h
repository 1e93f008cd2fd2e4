/* Sixteen lanes in plain C: slow, and the oracle for all other paths. */

#include <math.h>

typedef struct { float lane[16]; } vf;
typedef struct { int32_t lane[16]; } vi;
typedef struct { uint8_t byte[64]; } vb;

#define FOR_LANES for (int i = 0; i < 16; i++)
#define FOR_BYTES for (int i = 0; i < 64; i++)

enum { SUMS = 8, VECTORS = 16 }; /* rows whose sums grow side by side; vectors that do */

INLINE vf vf_load(const float *p) { vf r; FOR_LANES r.lane[i] = p[i]; return r; }
INLINE void vf_store(float *p, vf v) { FOR_LANES p[i] = v.lane[i]; }
INLINE vf vf_set(float x) { vf r; FOR_LANES r.lane[i] = x; return r; }
INLINE vf vf_add(vf a, vf b) { FOR_LANES a.lane[i] += b.lane[i]; return a; }
INLINE vf vf_sub(vf a, vf b) { FOR_LANES a.lane[i] -= b.lane[i]; return a; }
INLINE vf vf_mul(vf a, vf b) { FOR_LANES a.lane[i] *= b.lane[i]; return a; }
INLINE vf vf_div(vf a, vf b) { FOR_LANES a.lane[i] /= b.lane[i]; return a; }
INLINE vf vf_fma(vf a, vf b, vf c) {
    FOR_LANES c.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
INLINE vf vf_max(vf a, vf b) { /* b where they do not compare, as x86 does */
    FOR_LANES a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}
INLINE vf vf_abs(vf a) { FOR_LANES a.lane[i] = fabsf(a.lane[i]); return a; }
/* Lanes folded in halves: i with i + 8, then i + 4, i + 2, i + 1. */
INLINE float vf_folded_sum(vf v) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) v.lane[i] += v.lane[i + half];
    return v.lane[0];
}
INLINE float vf_folded_max(vf v) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
    return v.lane[0];
}
INLINE vf vf_negate(vf a) { FOR_LANES a.lane[i] = -a.lane[i]; return a; }
INLINE vf vf_half(const uint16_t *p) { vf r; FOR_LANES r.lane[i] = fr_from_half(p[i]); return r; }
/* To nearest, ties to even; too large becomes infinite. */
INLINE uint16_t half_of(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (size >= 0x38800000u) {
        size += 0xfffu + (size >> 13 & 1);
        return (uint16_t)(sign | (size - 0x38000000u) >> 13);
    }
    return (uint16_t)(sign | (uint16_t)rintf(fabsf(x) * 0x1p24f));
}
INLINE void vf_store_half(uint16_t *p, vf v) { FOR_LANES p[i] = half_of(v.lane[i]); }
INLINE vf vf_brain(const uint16_t *p) { vf r; FOR_LANES r.lane[i] = fr_from_brain(p[i]); return r; }

INLINE vi vi_u8(const uint8_t *p) { vi r; FOR_LANES r.lane[i] = p[i]; return r; }
INLINE vi vi_i8(const uint8_t *p) { vi r; FOR_LANES r.lane[i] = (int8_t)p[i]; return r; }
INLINE vi vi_set(int32_t x) { vi r; FOR_LANES r.lane[i] = x; return r; }
INLINE vf vf_of_bits(vi v) { vf r; FOR_LANES r.lane[i] = fr_from_bits((uint32_t)v.lane[i]); return r; }
INLINE vf vi_floats(vi v) { vf r; FOR_LANES r.lane[i] = (float)v.lane[i]; return r; }
INLINE vi vf_round(vf v) { /* what has no integer becomes the least one, as on x86 */
    vi r;
    FOR_LANES {
        float x = rintf(v.lane[i]);
        r.lane[i] = x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
    }
    return r;
}
INLINE int32_t vi_sum(vi v) {
    uint32_t sum = 0;
    FOR_LANES sum += (uint32_t)v.lane[i];
    return (int32_t)sum;
}
INLINE void vi_store_i8(int8_t *p, vi v) {
    FOR_LANES p[i] = (int8_t)(v.lane[i] > 127 ? 127 : v.lane[i] < -128 ? -128 : v.lane[i]);
}
INLINE vf vf_power_of_two(vi n) {
    vf r;
    FOR_LANES r.lane[i] = fr_from_bits((uint32_t)(n.lane[i] + 127) << 23);
    return r;
}

INLINE vb vb_load(const uint8_t *p) { vb r; FOR_BYTES r.byte[i] = p[i]; return r; }
INLINE vb vb_and(vb v, uint8_t mask) { FOR_BYTES v.byte[i] &= mask; return v; }
INLINE vb vb_or(vb a, vb b) { FOR_BYTES a.byte[i] |= b.byte[i]; return a; }
/* Each byte shifted by `by` (left if positive), then masked. */
INLINE vb vb_shift_and(vb v, int by, uint8_t mask) {
    FOR_BYTES v.byte[i] = (uint8_t)(by > 0 ? v.byte[i] << by : v.byte[i] >> -by) & mask;
    return v;
}
/* c[lane] += Σ over the lane's 4 bytes of u (unsigned) · x (signed, the same 4 for each lane) */
INLINE vi vi_dot(vi c, vb u, const int8_t *x) {
    FOR_LANES c.lane[i] += u.byte[4 * i] * x[0] + u.byte[4 * i + 1] * x[1]
                         + u.byte[4 * i + 2] * x[2] + u.byte[4 * i + 3] * x[3];
    return c;
}
enum { WIDE = 0 }; /* bytes of codes, all unsigned, are taken as they are */
INLINE vi vi_dot_wide(vi c, vb u, const int8_t *x) { return vi_dot(c, u, x); }
INLINE void prefetch(const void *p) { (void)p; }
