/* Sixteen lanes in four NEON registers (with the dot product extension). vf: floats, vi: 32-bit
   integers, vb: 64 bytes. */

#include <arm_neon.h>

typedef struct { float32x4_t q[4]; } vf;
typedef struct { int32x4_t q[4]; } vi;
typedef struct { uint8x16_t q[4]; } vb;

#define QUARTERS for (int i = 0; i < 4; i++)

enum { SUMS = 4, VECTORS = 4 }; /* rows whose sums grow side by side; vectors that do */

INLINE vf vf_load(const float *p) { vf r; QUARTERS r.q[i] = vld1q_f32(p + 4 * i); return r; }
INLINE void vf_store(float *p, vf v) { QUARTERS vst1q_f32(p + 4 * i, v.q[i]); }
INLINE vf vf_set(float x) { vf r; QUARTERS r.q[i] = vdupq_n_f32(x); return r; }
INLINE vf vf_add(vf a, vf b) { QUARTERS a.q[i] = vaddq_f32(a.q[i], b.q[i]); return a; }
INLINE vf vf_sub(vf a, vf b) { QUARTERS a.q[i] = vsubq_f32(a.q[i], b.q[i]); return a; }
INLINE vf vf_mul(vf a, vf b) { QUARTERS a.q[i] = vmulq_f32(a.q[i], b.q[i]); return a; }
INLINE vf vf_div(vf a, vf b) { QUARTERS a.q[i] = vdivq_f32(a.q[i], b.q[i]); return a; }
INLINE vf vf_fma(vf a, vf b, vf c) {
    QUARTERS c.q[i] = vfmaq_f32(c.q[i], a.q[i], b.q[i]);
    return c;
}
INLINE vf vf_max(vf a, vf b) { /* b where they do not compare, as x86 does */
    QUARTERS a.q[i] = vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]);
    return a;
}
/* Lanes folded in halves: i with i + 8, then i + 4, i + 2, i + 1. */
INLINE float vf_folded_sum(vf v) {
    float32x4_t q = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
INLINE float vf_folded_max(vf v) {
    float lane[16];
    vf_store(lane, v);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}
INLINE vf vf_abs(vf a) { QUARTERS a.q[i] = vabsq_f32(a.q[i]); return a; }
INLINE vf vf_negate(vf a) { QUARTERS a.q[i] = vnegq_f32(a.q[i]); return a; }
INLINE vf vf_half(const uint16_t *p) {
    vf r;
    QUARTERS r.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    return r;
}
INLINE void vf_store_half(uint16_t *p, vf v) {
    QUARTERS vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.q[i])));
}
INLINE vf vf_brain(const uint16_t *p) {
    vf r;
    QUARTERS r.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    return r;
}
INLINE vi vi_u8(const uint8_t *p) {
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    return (vi){{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))}};
}
INLINE vi vi_i8(const uint8_t *p) {
    int8x16_t bytes = vld1q_s8((const int8_t *)p);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (vi){{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                 vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
}

INLINE vi vi_set(int32_t x) { vi r; QUARTERS r.q[i] = vdupq_n_s32(x); return r; }
INLINE vf vf_of_bits(vi v) {
    vf r;
    QUARTERS r.q[i] = vreinterpretq_f32_s32(v.q[i]);
    return r;
}
INLINE vf vi_floats(vi v) { vf r; QUARTERS r.q[i] = vcvtq_f32_s32(v.q[i]); return r; }
INLINE vi vf_round(vf v) { vi r; QUARTERS r.q[i] = vcvtnq_s32_f32(v.q[i]); return r; }
INLINE int32_t vi_sum(vi v) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(v.q[0], v.q[1]), vaddq_s32(v.q[2], v.q[3])));
}
INLINE void vi_store_i8(int8_t *p, vi v) {
    int16x8_t low = vcombine_s16(vqmovn_s32(v.q[0]), vqmovn_s32(v.q[1]));
    int16x8_t high = vcombine_s16(vqmovn_s32(v.q[2]), vqmovn_s32(v.q[3]));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
INLINE vf vf_power_of_two(vi n) {
    vf r;
    QUARTERS r.q[i] = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.q[i], vdupq_n_s32(127)), 23));
    return r;
}

INLINE vb vb_load(const uint8_t *p) { vb r; QUARTERS r.q[i] = vld1q_u8(p + 16 * i); return r; }
INLINE vb vb_and(vb v, uint8_t mask) {
    QUARTERS v.q[i] = vandq_u8(v.q[i], vdupq_n_u8(mask));
    return v;
}
INLINE vb vb_or(vb a, vb b) { QUARTERS a.q[i] = vorrq_u8(a.q[i], b.q[i]); return a; }
/* Each byte shifted by `by` (left if positive), then masked. */
INLINE vb vb_shift_and(vb v, int by, uint8_t mask) {
    QUARTERS v.q[i] = vshlq_u8(v.q[i], vdupq_n_s8((int8_t)by));
    return vb_and(v, mask);
}
/* c[lane] += Σ over the lane's 4 bytes of u (unsigned, below 128: `sdot` is signed by signed) · x
   (signed, the same 4 for each lane) */
INLINE vi vi_dot(vi c, vb u, const int8_t *x) {
    int32_t four;
    __builtin_memcpy(&four, x, 4);
    int8x16_t xs = vreinterpretq_s8_s32(vdupq_n_s32(four));
    QUARTERS c.q[i] = vdotq_s32(c.q[i], vreinterpretq_s8_u8(u.q[i]), xs);
    return c;
}
/* The same for any u, of which WIDE is taken away. */
enum { WIDE = 128 };
INLINE vi vi_dot_wide(vi c, vb u, const int8_t *x) {
    QUARTERS u.q[i] = veorq_u8(u.q[i], vdupq_n_u8(0x80));
    return vi_dot(c, u, x);
}
INLINE void prefetch(const void *p) { __builtin_prefetch(p, 0, 2); }
