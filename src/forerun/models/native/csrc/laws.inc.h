/* The law of a row of logits: what numerics/distribution.py defines, in few passes over V floats.

     w = exp((l − max l) / T)     top-k · top-p · min-p on w     p = w / Σ w

   Compiled once for each instruction path (laws*.c), as plain loops that compilers turn into vector
   instructions. No sum is left to the compiler to reorder (LANES partial sums in float64, then those
   in order), and exp is this file's own, so a law has the same bits on every path. They differ from
   NumPy's in the last places, whose exp differs from machine to machine.

   Where a law is cut (top-k, top-p, min-p), only the tokens that are left are written: ids in rising
   order, and their p. Weights below a first cut take part in sums alone; if what is asked for turns
   out to lie lower, the pass is repeated with a lower cut.

   Included with LAWS defined: the name of the path's table. */

#include <math.h>
#include <string.h>

#include "laws.h"

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif

enum { LANES = 64, BLOCK = 1024, BINS = 2048 };

typedef int32_t aliasing_int __attribute__((may_alias));

INLINE float of_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

INLINE int32_t bits_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* A float's bits as a whole number in the same order, 0 and −0 alike. Beyond ±inf lies NaN. */
INLINE int32_t rank(int32_t bits) {
    return bits < 0 ? (int32_t)(0x80000000u - (uint32_t)bits) : bits;
}

/* exp(x) for x ≤ 0: exactly 1 at 0, and 0 below −104; within 2 units of the last place.
   x = n ln 2 + r; 2^n in two factors, so that what underflows is rounded once. */
INLINE float exp_(float x) {
    const float shift = 12582912.0f; /* 1.5 · 2^23: adding it rounds to a whole number */
    x = x > -110.0f ? x : -110.0f;
    float whole = x * 1.44269504f + shift;
    int32_t n = bits_of(whole) - bits_of(shift), half = n >> 1;
    whole -= shift;
    float r = x - whole * 0.693145751953125f - whole * 1.42860677e-6f;
    float e = 1.0f / 5040;
    e = e * r + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    return e * of_bits((half + 127) << 23) * of_bits((n - half + 127) << 23);
}

/* Index of the largest logit, the first of equals; or FR_BAD_LOGITS, FR_NO_TOKEN. */
static int64_t argmax(const float *logits, int64_t size) {
    const aliasing_int *bits = (const aliasing_int *)logits;
    const int32_t infinite = 0x7f800000;
    int32_t top = -infinite, least = 0;
    int64_t where = 0;
    for (int64_t start = 0; start < size; start += BLOCK) {
        int64_t end = start + BLOCK < size ? start + BLOCK : size;
        int32_t high = INT32_MIN, low = 0;
        for (int64_t i = start; i < end; i++) {
            int32_t r = rank(bits[i]);
            high = r > high ? r : high;
            low = r < low ? r : low;
        }
        least = low < least ? low : least;
        if (high > top) {
            top = high;
            where = start;
        }
    }
    if (top >= infinite || least < -infinite) return FR_BAD_LOGITS;
    if (top == -infinite) return FR_NO_TOKEN;
    while (rank(bits[where]) < top) where++;
    return where;
}

INLINE void add_up(const float *w, int64_t count, double *sums) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) sums[j] += (double)w[i + j];
    for (int j = 0; i < count; i++, j++) sums[j] += (double)w[i];
}

INLINE double total(const double *sums) {
    double sum = 0;
    for (int j = 0; j < LANES; j++) sum += sums[j];
    return sum;
}

static double sum_of(const float *w, int64_t count) {
    double sums[LANES] = {0};
    add_up(w, count, sums);
    return total(sums);
}

/* w[count] = exp((l − top) / T), count ≤ BLOCK; adds to the partial sums. */
INLINE void weigh(const float *restrict logits, int count, float top, float temperature,
                  float *restrict w, double *restrict sums) {
    if (temperature == 1.0f)
        for (int i = 0; i < count; i++) w[i] = exp_(logits[i] - top);
    else
        for (int i = 0; i < count; i++) w[i] = exp_((logits[i] - top) / temperature);
    add_up(w, count, sums);
}

INLINE void normalise(float *p, int64_t count, double sum) {
    double inverse = 1 / sum;
    for (int64_t i = 0; i < count; i++) p[i] = (float)((double)p[i] * inverse);
}

static int whole_law(const float *logits, int64_t size, float temperature, float *p) {
    int64_t best = argmax(logits, size);
    if (best < 0) return (int)best;
    double sums[LANES] = {0};
    for (int64_t start = 0; start < size; start += BLOCK) {
        int count = size - start < BLOCK ? (int)(size - start) : BLOCK;
        weigh(logits + start, count, logits[best], temperature, p + start, sums);
    }
    normalise(p, size, total(sums));
    return 0;
}

/* All w ≥ cut, with their ids; the sum of all weights to *sum. Returns how many. */
static int64_t gather(const float *logits, int64_t size, float top, float temperature, float cut,
                      int32_t *ids, float *kept, double *sum) {
    double sums[LANES] = {0};
    float w[BLOCK];
    uint8_t above[BLOCK];
    int64_t n = 0;
    for (int64_t start = 0; start < size; start += BLOCK) {
        int count = size - start < BLOCK ? (int)(size - start) : BLOCK;
        weigh(logits + start, count, top, temperature, w, sums);
        for (int i = count; i < BLOCK; i++) w[i] = -1;
        for (int i = 0; i < BLOCK; i++) above[i] = w[i] >= cut;
        for (int i = 0; i < count; i += 8) {
            uint64_t eight;
            memcpy(&eight, above + i, 8);
            if (!eight) continue;
            for (int j = i; j < i + 8; j++)
                if (above[j]) {
                    ids[n] = (int32_t)(start + j);
                    kept[n++] = w[j];
                }
        }
    }
    *sum = total(sums);
    return n;
}

/* Keep the fewest largest weights whose number reaches `number` or whose sum reaches `mass`; of
   equal ones the first. Floats from 0 up order as their bits do: the last weight that is kept is
   found by counting the weights by their upper 11 bits, then the middle 11, then the lower 10. */
static int64_t keep_largest(int32_t *ids, float *w, int64_t n, int64_t number, double mass) {
    static const int low[] = {21, 10, 0}, wide[] = {11, 11, 10};
    int32_t prefix = 0; /* bits known so far */
    int64_t above = 0;  /* weights above all that share the prefix; and their sum */
    double reached = 0;
    for (int level = 0; level < 3; level++) {
        int32_t counts[BINS] = {0};
        double sums[BINS] = {0};
        int last = -1; /* of the bins that have any the lowest, where rounding falls short of mass */
        for (int64_t i = 0; i < n; i++) {
            int32_t upper = bits_of(w[i]) >> low[level];
            if (level && upper >> wide[level] != prefix) continue;
            int bin = upper & ((1 << wide[level]) - 1);
            counts[bin]++;
            sums[bin] += (double)w[i];
        }
        for (int bin = (1 << wide[level]) - 1; bin >= 0; bin--) {
            if (!counts[bin]) continue;
            if (last >= 0) above += counts[last], reached += sums[last];
            last = bin;
            if (above + counts[bin] >= number || reached + sums[bin] >= mass) break;
        }
        prefix = prefix << wide[level] | last;
    }
    float least = of_bits(prefix);
    int64_t kept = 0, equal = 0;
    for (int64_t i = 0; i < n; i++) {
        if (w[i] < least) continue;
        if (w[i] == least) {
            double before = reached + (double)equal * (double)least;
            if (equal && (above + equal >= number || before >= mass)) continue;
            equal++;
        }
        ids[kept] = ids[i];
        w[kept++] = w[i];
    }
    return kept;
}

static int64_t cut_law(const float *logits, int64_t size, float temperature, int64_t top_k,
                       double top_p, float min_p, int32_t *ids, float *p) {
    int64_t best = argmax(logits, size);
    if (best < 0) return best;
    int limited = 0 < top_k && top_k < size, nucleus = top_p < 1;
    const float cuts[] = {limited || nucleus ? 0x1p-14f : min_p, 0};
    int64_t n = 0, left = 0;
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        n = gather(logits, size, logits[best], temperature, cuts[i], ids, p, &sum);
        if (limited ? n >= top_k : !nucleus || sum_of(p, n) >= top_p * sum) break;
    }
    if (limited) {
        n = keep_largest(ids, p, n, top_k, INFINITY);
        sum = sum_of(p, n);
    }
    if (nucleus) n = keep_largest(ids, p, n, size + 1, top_p * sum);
    for (int64_t i = 0; i < n; i++)
        if (p[i] >= min_p && p[i] > 0) {
            ids[left] = ids[i];
            p[left++] = p[i];
        }
    normalise(p, left, sum_of(p, left));
    return left;
}

const fr_laws LAWS = {argmax, whole_law, cut_law};
