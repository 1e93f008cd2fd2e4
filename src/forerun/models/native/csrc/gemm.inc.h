/* One tile of a packed matrix times a block of rows: 16 output channels, one for each lane.

   For each group of 32 inputs the weights' codes are unpacked once and used for every row:

       sum  = Σ codes(w) · codes(x)                                   exact, in 32-bit integers
       acc  = fma(float(sum) · scale(x), scale(w), acc)               then, where there are minima,
       acc  = fma(min(w), scale(x) · Σ codes(x), acc)

   in the order of the groups, for each row and channel alike. Super-blocks have integer sub-scales
   and one scale d for 8 groups, so there

       part = fma(float(sum · subscale(w)), scale(x), part)           the product exact too, below 2^24
       acc  = fma(part, d(w), acc)                                    after 8 groups

 Types without minima have codes that
   mean code − offset; the offset's share, −offset · Σ codes(x), is where the sum begins.
   Included by every path, after its lanes. */

typedef struct {
    vb codes[8];   /* eight times 4 inputs of 16 channels, unsigned */
    vf scale;      /* of the group */
    vi sub[2];     /* sub-scale of the group, or of its halves (Q6_K) */
    vf minimum;    /* types with minima */
} unpacked;

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
INLINE int offset_of(int type) {
    return type == FR_Q8_0 ? 128 : type == FR_Q4_0 ? 8 : type == FR_Q5_0 ? 16
         : type == FR_Q6_K ? 32 : 0;
}

INLINE void unpack_codes(int type, const uint8_t *p, unpacked *u) {
    if (type == FR_Q8_0) {
        UNROLL
        for (int j = 0; j < 8; j++) u->codes[j] = vb_load(p + 64 * j);
        return;
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        vb both = vb_load(p + 64 * j);
        u->codes[j] = vb_and(both, 15);
        u->codes[j + 4] = vb_shift_and(both, -4, 15);
    }
    if (type == FR_Q5_0 || type == FR_Q5_1 || type == FR_Q5_K) {
        vb plane = vb_load(p + 256); /* bit j: the fifth bit of codes[j] */
        UNROLL
        for (int j = 0; j < 8; j++)
            u->codes[j] = vb_or(u->codes[j], vb_shift_and(plane, 4 - j, 16));
    }
    if (type == FR_Q6_K) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            vb plane = vb_load(p + 256 + 64 * half); /* bits 2j, 2j+1: the upper bits */
            UNROLL
            for (int j = 0; j < 4; j++)
                u->codes[4 * half + j] =
                    vb_or(u->codes[4 * half + j], vb_shift_and(plane, 4 - 2 * j, 48));
        }
    }
}

INLINE void unpack_scales(int type, const uint8_t *p, int within, vf super_minimum, unpacked *u) {
    if (type == FR_Q6_K) {
        u->sub[0] = vi_i8(p + 32 + 32 * within);
        u->sub[1] = vi_i8(p + 32 + 32 * within + 16);
    } else if (is_super(type)) {
        u->sub[0] = vi_u8(p + 64 + 32 * within);
        vf minimum = vi_floats(vi_u8(p + 64 + 32 * within + 16));
        u->minimum = vf_negate(vf_mul(super_minimum, minimum));
    } else {
        u->scale = vf_half((const uint16_t *)p);
        if (has_minima(type)) u->minimum = vf_half((const uint16_t *)(p + 32));
    }
}

/* One row's share of a group: acc, or for super-blocks part, grows. */
INLINE void fold_row(int type, const unpacked *u, const fr_record *g, vf *part, vf *acc) {
    vf scale = vf_set(g->scale);
    if (type == FR_Q6_K) {
        vi low = vi_set(-32 * g->sum[0]), high = vi_set(-32 * g->sum[1]);
        UNROLL
        for (int j = 0; j < 4; j++) low = vi_dot(low, u->codes[j], g->codes + 4 * j);
        UNROLL
        for (int j = 4; j < 8; j++) high = vi_dot(high, u->codes[j], g->codes + 4 * j);
        vi sum = vi_add(vi_mul(low, u->sub[0]), vi_mul(high, u->sub[1]));
        *part = vf_fma(vi_floats(sum), scale, *part);
        return;
    }
    int offset = offset_of(type);
    vi sum = vi_set(offset ? -offset * (g->sum[0] + g->sum[1]) : 0);
    UNROLL
    for (int j = 0; j < 8; j++)
        sum = type == FR_Q8_0 ? vi_dot_wide(sum, u->codes[j], g->codes + 4 * j)
                              : vi_dot(sum, u->codes[j], g->codes + 4 * j);
    if (is_super(type)) *part = vf_fma(vi_floats(vi_mul(sum, u->sub[0])), scale, *part);
    else *acc = vf_fma(vf_mul(vi_floats(sum), scale), u->scale, *acc);
    if (has_minima(type)) *acc = vf_fma(u->minimum, vf_set(g->sum_scaled), *acc);
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
    unpacked u;
    if (is_super(type)) {
        for (int first = 0; first < groups; first += 8) {
            vf super = vf_half((const uint16_t *)scales);
            vf super_minimum = type == FR_Q6_K ? super : vf_half((const uint16_t *)(scales + 32));
            for (int line = 0; line < scale_step(type); line += 64) prefetch(next_scales + line);
            next_scales += scale_step(type);
            for (int within = 0; within < 8; within++) {
                fetch(codes, end, next, ahead, step);
                unpack_codes(type, codes, &u);
                unpack_scales(type, scales, within, super_minimum, &u);
                UNROLL
                for (int r = 0; r < R; r++) fold_row(type, &u, x + r, &part[r], &acc[r]);
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
            unpack_codes(type, codes, &u);
            unpack_scales(type, scales, 0, vf_set(0), &u);
            UNROLL
            for (int r = 0; r < R; r++) fold_row(type, &u, x + r, &part[r], &acc[r]);
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
