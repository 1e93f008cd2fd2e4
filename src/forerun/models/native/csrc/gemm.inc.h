/* One tile of a packed matrix times a block of rows: 16 output channels, one for each lane.

   For each group of 32 inputs the weights' codes are unpacked once and used for every row:

       sum  = Σ codes(w) · codes(x)                                   exact, in 32-bit integers
       acc  = fma(sum · scale(w), scale(x), acc)                      then, where there are minima,
       acc  = fma(min(w), scale(x) · Σ codes(x), acc)

   in the order of the groups, for each row and channel alike. Super-blocks have integer sub-scales
   and one scale d for 8 groups, so there

       part = fma(sum · subscale(w), scale(x), part)                  the product exact too, below 2^24
       acc  = fma(part, d(w), acc)                                    after 8 groups

 Types without minima have codes that
   mean code − offset; the offset's share, −offset · Σ codes(x), is where the sum begins.

   Conversion and product are one instruction: sums begin at SHIFT, the bits of 1.5 · 2^23, to which
   an integer below 2^22 adds as it does to the float; so with F the float of those bits

       sum · scale(w) = fma(F, scale(w), −1.5 · 2^23 · scale(w))      the last product is exact

   Included by every path, after its lanes. */

enum { SHIFT = 0x4B400000 };

typedef struct {
    vf scale[2];   /* scale or sub-scale of the group, or of its halves (Q6_K) */
    vf shift[2];   /* −1.5 · 2^23 · scale */
    vf minimum;    /* types with minima */
} scales_of_group;

INLINE int has_minima(int type) {
    return type == FR_Q4_1 || type == FR_Q5_1 || type == FR_Q4_K || type == FR_Q5_K;
}
INLINE int is_super(int type) { return type == FR_Q4_K || type == FR_Q5_K || type == FR_Q6_K; }
INLINE int code_bytes(int type) {
    return type == FR_Q8_0 ? 512
         : type == FR_Q6_K ? 384
         : type == FR_Q5_0 || type == FR_Q5_1 || type == FR_Q5_K ? 320 : 256;
}
/* Bytes of scales: of a group, or of a super-block of 8 groups. */
INLINE int scale_step(int type) {
    return type == FR_Q6_K ? 32 + 16 * 16
         : is_super(type) ? 64 + 8 * 32
         : has_minima(type) ? 64 : 32;
}
/* What codes, as they are multiplied, are more than what they mean. */
INLINE int offset_of(int type) {
    return type == FR_Q8_0 ? 128 - WIDE : type == FR_Q4_0 ? 8 : type == FR_Q5_0 ? 16
         : type == FR_Q6_K ? 32 : 0;
}

/* The codes of inputs 4j .. 4j+3 of a group's 16 channels, unsigned. */
INLINE vb codes_at(int type, const uint8_t *p, int j) {
    if (type == FR_Q8_0) return vb_load(p + 64 * j);
    vb both = vb_load(p + 64 * (j % 4));
    vb codes = j < 4 ? vb_and(both, 15) : vb_shift_and(both, -4, 15);
    if (type == FR_Q5_0 || type == FR_Q5_1 || type == FR_Q5_K) /* bit j: the fifth bit */
        codes = vb_or(codes, vb_shift_and(vb_load(p + 256), 4 - j, 16));
    if (type == FR_Q6_K) /* bits 2j, 2j+1 of its half: the upper bits */
        codes = vb_or(codes, vb_shift_and(vb_load(p + 256 + 64 * (j / 4)), 4 - 2 * (j % 4), 48));
    return codes;
}

/* Where registers are few, what is not needed at once waits in memory, and what is unpacked is
   unpacked again for other rows. */
#ifndef WAITS
#define WAITS(value) (void)(value)
#define AFRESH(pointer) (void)(pointer)
#endif

INLINE void unpack_scales(int type, const uint8_t *p, int within, vf super_minimum,
                          scales_of_group *u) {
    if (type == FR_Q6_K) {
        u->scale[0] = vi_floats(vi_i8(p + 32 + 32 * within));
        u->scale[1] = vi_floats(vi_i8(p + 32 + 32 * within + 16));
    } else if (is_super(type)) {
        u->scale[0] = vi_floats(vi_u8(p + 64 + 32 * within));
        vf minimum = vi_floats(vi_u8(p + 64 + 32 * within + 16));
        u->minimum = vf_negate(vf_mul(super_minimum, minimum));
    } else {
        u->scale[0] = vf_half((const uint16_t *)p);
        if (has_minima(type)) u->minimum = vf_half((const uint16_t *)(p + 32));
    }
    u->shift[0] = vf_mul(u->scale[0], vf_set(-0x1.8p23f));
    if (type == FR_Q6_K) u->shift[1] = vf_mul(u->scale[1], vf_set(-0x1.8p23f));
    WAITS(*u);
}

/* Products of bytes, as they are summed. Most paths add them to their 32-bit sum at once. Where that
   takes several instructions, sums grow in 16 bits first (NARROW: the path's own vn). */
#ifndef NARROW
typedef vi vn;
INLINE vn vn_begin(vi sum) { return sum; }
INLINE vn vn_dot(vn n, vb codes, const int8_t *x) { return vi_dot(n, codes, x); }
INLINE vi vn_end(vi sum, vn n) { (void)sum; return n; }
#endif

/* Vectors of codes whose products 16 bits hold, pair by pair: 8, 4 or 2. */
INLINE int held(int type) {
    int largest = type == FR_Q6_K ? 63 : code_bytes(type) == 320 ? 31 : 15;
    return INT16_MAX / (2 * largest * 127);
}

/* sum[r] += Σ codes(w) · codes(x) over vectors first .. first+count-1 of S rows. Their sums grow
   side by side, since one waits several cycles for its last product. */
INLINE void dot_rows(int type, int S, const uint8_t *codes, const fr_record *x, int first,
                     int count, vi *sum) {
    vn narrow[FR_ROWS];
    const int most = held(type) < count ? held(type) : count;
    UNROLL
    for (int start = first; start < first + count; start += most) {
        UNROLL
        for (int r = 0; r < S; r++) narrow[r] = vn_begin(sum[r]);
        UNROLL
        for (int j = start; j < start + most; j++) {
            AFRESH(codes);
            vb four = codes_at(type, codes, j);
            UNROLL
            for (int r = 0; r < S; r++) narrow[r] = vn_dot(narrow[r], four, x[r].codes + 4 * j);
        }
        UNROLL
        for (int r = 0; r < S; r++) sum[r] = vn_end(sum[r], narrow[r]);
    }
}

/* The same of all vectors of Q8_0, whose products have no place in 16 bits. */
INLINE void dot_rows_wide(int S, const uint8_t *codes, const fr_record *x, vi *sum) {
    UNROLL
    for (int j = 0; j < 8; j++) {
        AFRESH(codes);
        vb four = vb_load(codes + 64 * j);
        UNROLL
        for (int r = 0; r < S; r++) sum[r] = vi_dot_wide(sum[r], four, x[r].codes + 4 * j);
    }
}

/* S rows' share of a group: acc, or for super-blocks part, grows. */
INLINE void fold_rows(int type, int S, const uint8_t *codes, const scales_of_group *u,
                      const fr_record *x, vf *part, vf *acc) {
    vi sum[FR_ROWS];
    vf halves[FR_ROWS];
    if (type == FR_Q6_K) {
        UNROLL
        for (int half = 1; half >= 0; half--) {
            UNROLL
            for (int r = 0; r < S; r++) sum[r] = vi_set(SHIFT - 32 * x[r].sum[half]);
            dot_rows(type, S, codes, x, 4 * half, 4, sum);
            UNROLL
            for (int r = 0; r < S; r++) {
                vf own = vf_fma(vf_of_bits(sum[r]), u->scale[half], u->shift[half]);
                halves[r] = half ? own : vf_add(own, halves[r]);
            }
        }
        UNROLL
        for (int r = 0; r < S; r++) part[r] = vf_fma(halves[r], vf_set(x[r].scale), part[r]);
        return;
    }
    int offset = offset_of(type);
    UNROLL
    for (int r = 0; r < S; r++)
        sum[r] = vi_set(SHIFT - (offset ? offset * (x[r].sum[0] + x[r].sum[1]) : 0));
    if (type == FR_Q8_0) dot_rows_wide(S, codes, x, sum);
    else dot_rows(type, S, codes, x, 0, 8, sum);
    UNROLL
    for (int r = 0; r < S; r++) {
        vf *to = is_super(type) ? part + r : acc + r;
        vf own = vf_fma(vf_of_bits(sum[r]), u->scale[0], u->shift[0]);
        *to = vf_fma(own, vf_set(x[r].scale), *to);
        if (has_minima(type)) acc[r] = vf_fma(u->minimum, vf_set(x[r].sum_scaled), acc[r]);
    }
}

/* The same for R rows, as many at once as registers hold sums of. A loop, not unrolled: what is
   longer than a processor's store of decoded instructions runs at the decoder's pace. */
INLINE void fold_block(int type, int R, const uint8_t *codes, const scales_of_group *u,
                       const fr_record *x, vf *part, vf *acc) {
    const int parts = (R + SUMS - 1) / SUMS, S = (R + parts - 1) / parts, whole = R / S * S;
    for (int r = 0; r < whole; r += S) fold_rows(type, S, codes, u, x + r, part + r, acc + r);
    if (whole < R)
        fold_rows(type, R - whole, codes, u, x + whole, part + whole, acc + whole);
}

/* Codes are fetched this many bytes ahead (at most a tile's), on into the next tile, whose scales
   are fetched too. Into the second cache: the first has too few places for lines on their way. */
enum { AHEAD = 8192 };

INLINE void fetch(const uint8_t *codes, const uint8_t *end, const uint8_t *next, int64_t ahead,
                  int bytes) {
    const uint8_t *from = codes + ahead < end ? codes + ahead : next + (codes + ahead - end);
    for (int line = 0; line < bytes; line += 64) prefetch(from + line);
}

INLINE void quantised_tile(int type, int R, const fr_matrix *m, int64_t tile, const uint8_t *next,
                           const fr_record *x, float *out) {
    const uint8_t *scales = m->data + tile * m->tile_bytes, *codes = scales + m->scale_bytes;
    const uint8_t *end = scales + m->tile_bytes, *next_scales = next;
    const int64_t size = m->tile_bytes - m->scale_bytes, ahead = size < AHEAD ? size : AHEAD;
    next += m->scale_bytes;
    const int step = code_bytes(type), groups = m->width / FR_GROUP;
    vf acc[FR_ROWS], part[FR_ROWS];
    UNROLL
    for (int r = 0; r < R; r++) acc[r] = part[r] = vf_set(0);
    scales_of_group u;
    if (is_super(type)) {
        for (int first = 0; first < groups; first += 8) {
            vf super = vf_half((const uint16_t *)scales);
            vf super_minimum = type == FR_Q6_K ? super : vf_half((const uint16_t *)(scales + 32));
            for (int line = 0; line < scale_step(type); line += 64) prefetch(next_scales + line);
            next_scales += scale_step(type);
            for (int within = 0; within < 8; within++) {
                fetch(codes, end, next, ahead, step);
                unpack_scales(type, scales, within, super_minimum, &u);
                fold_block(type, R, codes, &u, x, part, acc);
                codes += step;
                x += R;
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                acc[r] = vf_fma(part[r], super, acc[r]);
                part[r] = vf_set(0);
            }
            scales += scale_step(type);
        }
    } else {
        for (int group = 0; group < groups; group++) {
            prefetch(next_scales);
            next_scales += scale_step(type);
            fetch(codes, end, next, ahead, step);
            unpack_scales(type, scales, 0, vf_set(0), &u);
            fold_block(type, R, codes, &u, x, part, acc);
            scales += scale_step(type);
            codes += step;
            x += R;
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) vf_store(out + FR_LANES * r, acc[r]);
}

INLINE void float_tile(int type, int R, const fr_matrix *m, int64_t tile, const float *x,
                       int64_t stride, float *out) {
    const uint8_t *weights = m->data + tile * m->tile_bytes;
    vf acc[FR_ROWS];
    UNROLL
    for (int r = 0; r < R; r++) acc[r] = vf_set(0);
    for (int k = 0; k < m->width; k++) {
        vf w = type == FR_F32 ? vf_load((const float *)weights + 16 * k)
             : type == FR_F16 ? vf_half((const uint16_t *)weights + 16 * k)
                              : vf_brain((const uint16_t *)weights + 16 * k);
        UNROLL
        for (int r = 0; r < R; r++) acc[r] = vf_fma(w, vf_set(x[r * stride + k]), acc[r]);
    }
    UNROLL
    for (int r = 0; r < R; r++) vf_store(out + FR_LANES * r, acc[r]);
}

#ifdef FR_PLAIN

static void any_tile(const fr_matrix *m, int64_t tile, const uint8_t *next, const fr_record *x,
                     const float *floats, int64_t stride, int rows, float *out) {
    if (m->type <= FR_BF16) float_tile(m->type, rows, m, tile, floats, stride, out);
    else quantised_tile(m->type, rows, m, tile, next, x, out);
}

#else /* a body for each type and number of rows */

#define BODY(TYPE, R) \
    case R: \
        if (TYPE <= FR_BF16) float_tile(TYPE, R, m, tile, floats, stride, out); \
        else quantised_tile(TYPE, R, m, tile, next, x, out); \
        break;
#define TILE(TYPE) \
    static NOINLINE void tile_##TYPE(const fr_matrix *m, int64_t tile, const uint8_t *next, \
                                     const fr_record *x, const float *floats, int64_t stride, \
                                     int rows, float *out) { \
        (void)next; \
        switch (rows) { \
            BODY(TYPE, 1) BODY(TYPE, 2) BODY(TYPE, 3) BODY(TYPE, 4) \
            BODY(TYPE, 5) BODY(TYPE, 6) BODY(TYPE, 7) BODY(TYPE, 8) \
        } \
    }
TILE(FR_F32) TILE(FR_F16) TILE(FR_BF16) TILE(FR_Q8_0) TILE(FR_Q4_0) TILE(FR_Q4_1)
TILE(FR_Q5_0) TILE(FR_Q5_1) TILE(FR_Q4_K) TILE(FR_Q5_K) TILE(FR_Q6_K)

static void any_tile(const fr_matrix *m, int64_t tile, const uint8_t *next, const fr_record *x,
                     const float *floats, int64_t stride, int rows, float *out) {
#define OF(TYPE) \
    case TYPE: tile_##TYPE(m, tile, next, x, floats, stride, rows, out); break;
    switch (m->type) {
        OF(FR_F32) OF(FR_F16) OF(FR_BF16) OF(FR_Q8_0) OF(FR_Q4_0) OF(FR_Q4_1)
        OF(FR_Q5_0) OF(FR_Q5_1) OF(FR_Q4_K) OF(FR_Q5_K) OF(FR_Q6_K)
    }
#undef OF
}

#endif
