/* What is done to one row on its own: norms, codes, rotation, gating. Reductions run in sixteen
   lanes and are then folded in halves, on every path alike. Included after a path's lanes. */

/* e^x within 2 ulp between −87 and 88, and there what it is at the ends; NaN stays NaN.
   By x = n ln 2 + r and a polynomial in r. */
INLINE vf vf_exp(vf x) {
    /* max(a, x) is x where they do not compare, so that NaN goes on */
    vf clipped = vf_negate(vf_max(vf_set(-88.0f), vf_negate(vf_max(vf_set(-87.0f), x))));
    vi n = vf_round(vf_mul(clipped, vf_set(1.44269504088896341f)));
    vf nf = vi_floats(n);
    vf r = vf_fma(nf, vf_set(-0.693145751953125f), clipped);
    r = vf_fma(nf, vf_set(-1.42860682030941723e-6f), r);
    vf p = vf_set(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(5.0000001201e-1f));
    p = vf_fma(p, vf_mul(r, r), vf_add(r, vf_set(1.0f)));
    return vf_mul(p, vf_power_of_two(n));
}

static void quantise_row(const float *x, int width, fr_record *records, int step) {
    for (int start = 0; start < width; start += FR_GROUP, records += step) {
        vf a = vf_load(x + start), b = vf_load(x + start + 16);
        float largest = vf_folded_max(vf_max(vf_abs(a), vf_abs(b)));
        /* 0 · x is 0 but for infinities and NaN, which the codes cannot hold: the scale does */
        float bad = vf_folded_sum(vf_add(vf_mul(a, vf_set(0)), vf_mul(b, vf_set(0))));
        if (!(bad == 0 && largest >= 0x1p-119f)) { /* below it, 1 / scale may not be a float */
            a = b = vf_set(0);
            largest = 0;
        }
        float inverse = largest > 0 ? 127.0f / largest : 0;
        vi low = vf_round(vf_mul(a, vf_set(inverse))), high = vf_round(vf_mul(b, vf_set(inverse)));
        vi_store_i8(records->codes, low);
        vi_store_i8(records->codes + 16, high);
        records->scale = largest / 127.0f + bad;
        records->sum[0] = vi_sum(low);
        records->sum[1] = vi_sum(high);
        records->sum_scaled = records->scale * (float)(records->sum[0] + records->sum[1]);
    }
}

static float inverse_rms_row(const float *x, int width, float epsilon) {
    vf sum = vf_set(0);
    int i = 0;
    for (; i + 16 <= width; i += 16) sum = vf_fma(vf_load(x + i), vf_load(x + i), sum);
    if (i < width) {
        float rest[16] = {0};
        for (int j = 0; i + j < width; j++) rest[j] = x[i + j];
        sum = vf_fma(vf_load(rest), vf_load(rest), sum);
    }
    return 1.0f / sqrtf(vf_folded_sum(sum) / (float)width + epsilon);
}

static void norm_row(const float *x, const float *weight, float inverse, int width, float *out,
                     int add) {
    for (int i = 0; i < width; i++) {
        float value = x[i] * inverse * weight[i];
        out[i] = add ? out[i] + value : value;
    }
}

/* out = activation(gate) · up over `width` values, a multiple of 16.
   SiLU: g / (1 + e^−g); GELU, tanh form: g · (1 − 1 / (e^(2u) + 1)), u = √(2/π)(g + 0.044715 g³) */
static void gate_row(const float *gate, const float *up, int width, int gelu, float *out) {
    const vf one = vf_set(1.0f);
    for (int i = 0; i < width; i += 16) {
        vf g = vf_load(gate + i), y;
        if (gelu) {
            vf cube = vf_mul(vf_mul(g, g), g);
            vf twice = vf_mul(vf_fma(cube, vf_set(0.044715f), g), vf_set(1.5957691216057308f));
            y = vf_mul(g, vf_sub(one, vf_div(one, vf_add(vf_exp(twice), one))));
        } else {
            y = vf_div(g, vf_add(one, vf_exp(vf_negate(g))));
        }
        vf_store(out + i, vf_mul(y, vf_load(up + i)));
    }
}

static void rotate_head(float *x, const float *table, int turned, int interleaved) {
    int half = turned / 2, i = 0;
    for (; !interleaved && i + 16 <= half; i += 16) {
        vf a = vf_load(x + i), b = vf_load(x + i + half);
        vf c = vf_load(table + i), s = vf_load(table + half + i);
        vf_store(x + i, vf_fma(vf_negate(b), s, vf_mul(a, c)));
        vf_store(x + i + half, vf_fma(a, s, vf_mul(b, c)));
    }
    for (; i < half; i++) {
        int at = interleaved ? 2 * i : i, other = interleaved ? 2 * i + 1 : i + half;
        float a = x[at], b = x[other], c = table[i], s = table[half + i];
        x[at] = fmaf(-b, s, a * c);
        x[other] = fmaf(a, s, b * c);
    }
}

/* Tiles come in any order: of equal logits the one of the lower tile stays. */
static void choose_lanes(const float *logits, int tile, int count, fr_largest *largest) {
    float padded[FR_LANES];
    if (count < FR_LANES) {
        for (int c = 0; c < FR_LANES; c++) padded[c] = c < count ? logits[c] : -INFINITY;
        logits = padded;
    }
    for (int c = 0; c < FR_LANES; c++) {
        float x = logits[c], most = largest->value[c];
        int32_t before = largest->tile[c];
        int better = (x > most) | ((x == most) & (tile < before));
        largest->value[c] = better ? x : most;
        largest->tile[c] = better ? tile : before;
        largest->bad[c] |= !(x < INFINITY);
    }
}

/* One position's key, a column of its block of 16, and its value, a row; both as half floats. */
static void store_cell(const float *k, const float *v, int head_width, uint16_t *keys,
                       uint16_t *values) {
    for (int i = 0; i < head_width; i += 16) {
        uint16_t halves[16];
        vf_store_half(halves, vf_load(k + i));
        for (int j = 0; j < 16; j++) keys[16 * (i + j)] = halves[j];
        vf_store_half(values + i, vf_load(v + i));
    }
}
