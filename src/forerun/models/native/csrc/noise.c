/* Keyed noise, as numerics/randomness.py defines it: Philox4x64-10, and the race by exponentials.

     u = (k + ½) · 2^−53, k the upper 53 bits of a word        E = −log(1 − u)
     the race is won by the least E / p; of equals by the first

   The words and u are NumPy's to the last bit. log1p is the C library's, NumPy's may be another: so
   E / p may differ by a rounding, and the winner only where two differ by no more than that. As
   E ≥ u, the logarithm is taken only of those u that can still win: a few in a whole vocabulary. */

#include <math.h>
#include <stdint.h>

#include "export.h"

/* k0, k1: the key; c1, c2, c3: the counter's upper words. Token id x has word x % 4 of block x / 4,
   where block b has the lowest word b + 1. */
FR_API double fr_uniform(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3,
                         int64_t id);
/* Index of the winner among p[count], all of them positive or 0; `ids` are theirs, or NULL where
   they are 0, 1, … −1 if all are 0. */
FR_API int64_t fr_race(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3,
                       const int32_t *ids, const float *p, int64_t count);

static uint64_t product(uint64_t a, uint64_t b, uint64_t *high) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 whole = (unsigned __int128)a * b;
    *high = (uint64_t)(whole >> 64);
    return (uint64_t)whole;
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, cross = a1 * b0 + (low >> 32), middle = a0 * b1 + (uint32_t)cross;
    *high = a1 * b1 + (cross >> 32) + (middle >> 32);
    return a * b;
#endif
}

/* (Salmon et al. 2011, section 4.3) */
static void philox(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3, uint64_t block,
                   uint64_t *out) {
    uint64_t c0 = block + 1;
    for (int round = 0; round < 10; round++) {
        uint64_t high0, high1;
        uint64_t low0 = product(0xD2E7470EE14C6C93u, c0, &high0);
        uint64_t low1 = product(0xCA5A826395121157u, c2, &high1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B97F4A7C15u;
        k1 += 0xBB67AE8584CAA73Bu;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static double uniform(uint64_t word) {
    double u = ((double)(int64_t)(word >> 11) + 0.5) * 0x1p-53;
    return u < 1 - 0x1p-53 ? u : 1 - 0x1p-53; /* the topmost would round to 1 */
}

double fr_uniform(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3, int64_t id) {
    uint64_t words[4];
    philox(k0, k1, c1, c2, c3, (uint64_t)id / 4, words);
    return uniform(words[id % 4]);
}

int64_t fr_race(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3,
                const int32_t *ids, const float *p, int64_t count) {
    int64_t winner = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < count;) {
        uint64_t words[4], block = (uint64_t)(ids ? ids[i] : i) / 4;
        philox(k0, k1, c1, c2, c3, block, words);
        do {
            double u = uniform(words[(ids ? ids[i] : i) % 4]), mass = (double)p[i];
            /* E ≥ u but for rounding; and p = 0 never wins */
            if (!(u > least * mass * (1 + 0x1p-40)) && mass > 0) {
                double time = -log1p(-u) / mass;
                if (time < least) least = time, winner = i;
            }
        } while (++i < count && (ids ? (uint64_t)ids[i] / 4 == block : i % 4 != 0));
    }
    return winner;
}
