/* Attention of up to FR_PAIRS (row, head) pairs over one head of cached keys.

       score[j] = Σ_d q[d] k_j[d]           in the order of d
       out      = Σ_j e^(score[j] − max) v_j / Σ_j e^(score[j] − max)

   Both sums run over positions, from the first a row sees to its own: the second in sixteen lanes
   by position mod 16. Which cells hold those positions does not matter, nor who shares the call.
   Included after a path's lanes and rows.inc.h. */

INLINE const uint16_t *keys_of(const fr_attention *a, int cell) {
    const char *page = (const char *)a->pages[cell / FR_PAGE] + a->key_offset;
    return (const uint16_t *)page + (int64_t)(cell % FR_PAGE / 16) * 16 * a->head_width;
}
INLINE const uint16_t *value_of(const fr_attention *a, int cell) {
    const char *page = (const char *)a->pages[cell / FR_PAGE] + a->value_offset;
    return (const uint16_t *)page + (int64_t)(cell % FR_PAGE) * a->head_width;
}

/* Vectors of sums for each of P pairs, at most 4: as many as there are registers for. */
INLINE int at_once(int P) { return VECTORS / P >= 4 ? 4 : VECTORS / P >= 2 ? 2 : 1; }

/* Scores of B blocks of 16 cells, from block `first`, for P pairs: B · P sums at a time. As many
   blocks behind them are fetched; `next` is where those begin. */
INLINE void score_some(const fr_attention *a, int P, int B, int first, const uint16_t *next) {
    const uint16_t *keys[4];
    vf sum[FR_PAIRS][4];
    UNROLL
    for (int b = 0; b < B; b++) keys[b] = keys_of(a, 16 * (first + b));
    UNROLL
    for (int p = 0; p < P; p++) {
        UNROLL
        for (int b = 0; b < B; b++) sum[p][b] = vf_set(0);
    }
    for (int d = 0; d < a->head_width; d++) {
        if (d % 2 == 0)
            for (int b = 0; b < B; b++) prefetch(next + 16 * (B * d + 2 * b));
        UNROLL
        for (int b = 0; b < B; b++) {
            vf k = vf_half(keys[b] + 16 * d);
            UNROLL
            for (int p = 0; p < P; p++) sum[p][b] = vf_fma(vf_set(a->q[p][d]), k, sum[p][b]);
        }
    }
    UNROLL
    for (int p = 0; p < P; p++) {
        UNROLL
        for (int b = 0; b < B; b++)
            vf_store(a->scores + p * a->stride + 16 * (first + b), sum[p][b]);
    }
}

/* Scores of all cells in blocks first .. last-1; then the first values are on their way. */
INLINE void score_blocks(const fr_attention *a, int P, int first, int last) {
    const int B = at_once(P);
    int block = first;
    for (; block + B <= last; block += B)
        score_some(a, P, B, block,
                   block + B < last ? keys_of(a, 16 * (block + B)) : value_of(a, 16 * first));
    for (; block < last; block++)
        score_some(a, P, 1, block,
                   block + 1 < last ? keys_of(a, 16 * (block + 1)) : value_of(a, 16 * first));
}

/* out[p] += Σ_j weight[p][j] v_j over `count` positions from `first`, whose values lie one behind
   the other: of each its W vectors from channel `at` on. Those of the next page are fetched. */
INLINE void add_values(const fr_attention *a, int P, int W, const int *pair, int at, int first,
                       int count, const uint16_t *values, const uint16_t *next) {
    vf sum[FR_PAIRS][4];
    const float *weight[FR_PAIRS];
    UNROLL
    for (int p = 0; p < P; p++) {
        weight[p] = a->scores + pair[p] * a->stride + first;
        UNROLL
        for (int w = 0; w < W; w++) sum[p][w] = vf_load(a->out[pair[p]] + at + 16 * w);
    }
    for (int j = 0; j < count; j++) {
        const int64_t position = (int64_t)j * a->head_width + at;
        for (int w = 0; w < W; w += 2) prefetch(next + position + 16 * w);
        UNROLL
        for (int w = 0; w < W; w++) {
            vf v = vf_half(values + position + 16 * w);
            UNROLL
            for (int p = 0; p < P; p++) sum[p][w] = vf_fma(vf_set(weight[p][j]), v, sum[p][w]);
        }
    }
    UNROLL
    for (int p = 0; p < P; p++) {
        UNROLL
        for (int w = 0; w < W; w++) vf_store(a->out[pair[p]] + at + 16 * w, sum[p][w]);
    }
}

/* The same of all channels over positions first .. last-1, all of them cells of that number. Page
   by page, since one has room in the first cache. */
INLINE void all_values(const fr_attention *a, int P, const int *pair, int first, int last) {
    const int W = at_once(P);
    for (int from = first, to; from < last; from = to) {
        to = (from / FR_PAGE + 1) * FR_PAGE;
        const uint16_t *values = value_of(a, from), *next = to < last ? value_of(a, to) : values;
        const int count = (to < last ? to : last) - from;
        int at = 0;
        for (; at + 16 * W <= a->head_width; at += 16 * W)
            add_values(a, P, W, pair, at, from, count, values, next);
        for (; at < a->head_width; at += 16)
            add_values(a, P, 1, pair, at, from, count, values, next);
    }
}

INLINE void attend_pairs(const fr_attention *a, int P) {
    int start[FR_PAIRS], end[FR_PAIRS], cells = 0, lowest = a->shared[0];
    UNROLL
    for (int p = 0; p < P; p++) {
        end[p] = a->shared[p] + a->path_length[p];
        start[p] = a->window && end[p] > a->window ? end[p] - a->window : 0;
        int last = a->path_length[p] ? a->path[p][a->path_length[p] - 1] + 1 : a->shared[p];
        if (last > cells) cells = last;
        if (start[p] < lowest) lowest = start[p];
    }
    score_blocks(a, P, lowest / 16, (cells + 15) / 16);

    float inverse[FR_PAIRS];
    for (int p = 0; p < P; p++) { /* scores by position, then weights */
        float *score = a->scores + p * a->stride;
        for (int j = 0; j < a->path_length[p]; j++) /* a cell is never before its position */
            score[a->shared[p] + j] = score[a->path[p][j]];
        int first = start[p] / 16 * 16, last = (end[p] + 15) / 16 * 16;
        for (int j = first; j < start[p]; j++) score[j] = -INFINITY;
        for (int j = end[p]; j < last; j++) score[j] = -INFINITY;
        vf most = vf_load(score + first);
        for (int j = first + 16; j < last; j += 16) most = vf_max(vf_load(score + j), most);
        vf top = vf_set(vf_folded_max(most)), total = vf_set(0);
        for (int j = first; j < last; j += 16) {
            vf weight = vf_exp(vf_sub(vf_load(score + j), top));
            vf_store(score + j, weight);
            total = vf_add(total, weight);
        }
        inverse[p] = 1.0f / vf_folded_sum(total);
        for (int i = 0; i < a->head_width; i++) a->out[p][i] = 0;
    }

    int from = 0, to = a->shared[0];
    for (int p = 0; p < P; p++) {
        if (start[p] > from) from = start[p];
        if (a->shared[p] < to) to = a->shared[p];
    }
    const int each[FR_PAIRS] = {0, 1, 2, 3};
    if (from > to) from = to;
    for (int p = 0; p < P; p++) all_values(a, 1, &each[p], start[p], from);
    all_values(a, P, each, from, to);
    for (int p = 0; p < P; p++) {
        int shared = a->shared[p];
        all_values(a, 1, &each[p], start[p] > to ? start[p] : to, shared);
        for (int j = 0; j < a->path_length[p]; j++) {
            int position = shared + j;
            if (position < start[p]) continue;
            /* the weight lies at its position, the value in its cell */
            const uint16_t *value = value_of(a, a->path[p][j]);
            vf weight = vf_set(a->scores[p * a->stride + position]);
            for (int i = 0; i < a->head_width; i += 16)
                vf_store(a->out[p] + i,
                         vf_fma(weight, vf_half(value + i), vf_load(a->out[p] + i)));
        }
        for (int i = 0; i < a->head_width; i += 16)
            vf_store(a->out[p] + i, vf_mul(vf_load(a->out[p] + i), vf_set(inverse[p])));
    }
}

static void attend_all(const fr_attention *a) {
    switch (a->pairs) {
        case 1: attend_pairs(a, 1); break;
        case 2: attend_pairs(a, 2); break;
        case 3: attend_pairs(a, 3); break;
        case 4: attend_pairs(a, 4); break;
    }
}
