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

enum { ROUNDS = 10, WORDS = 4 };

/* What the blocks have in common: the keys of all rounds, and the counter's upper words. */
typedef struct { uint64_t k0[ROUNDS], k1[ROUNDS], c1, c2, c3; } noise;

static noise noise_of(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3) {
    noise n = {.c1 = c1, .c2 = c2, .c3 = c3};
    for (int round = 0; round < ROUNDS; round++) {
        n.k0[round] = k0 + (uint64_t)round * 0x9E3779B97F4A7C15u;
        n.k1[round] = k1 + (uint64_t)round * 0xBB67AE8584CAA73Bu;
    }
    return n;
}

/* (Salmon et al. 2011, section 4.3) */
static inline void philox(const noise *n, uint64_t block, uint64_t *out) {
    uint64_t c0 = block + 1, c1 = n->c1, c2 = n->c2, c3 = n->c3;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t high0, high1;
        uint64_t low0 = product(0xD2E7470EE14C6C93u, c0, &high0);
        uint64_t low1 = product(0xCA5A826395121157u, c2, &high1);
        c0 = high1 ^ c1 ^ n->k0[round];
        c1 = low1;
        c2 = high0 ^ c3 ^ n->k1[round];
        c3 = low0;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static double uniform(uint64_t word) {
    double u = ((double)(int64_t)(word >> 11) + 0.5) * 0x1p-53;
    return u < 1 - 0x1p-53 ? u : 1 - 0x1p-53; /* the topmost would round to 1 */
}

double fr_uniform(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3, int64_t id) {
    noise n = noise_of(k0, k1, c1, c2, c3);
    uint64_t words[WORDS];
    philox(&n, (uint64_t)id / WORDS, words);
    return uniform(words[id % WORDS]);
}

typedef struct { double least; int64_t winner; } race;

static inline void run(race *r, uint64_t word, float p, int64_t i) {
    double u = uniform(word), mass = (double)p;
    /* E ≥ u but for rounding; and p = 0 never wins */
    if (!(u > r->least * mass * (1 + 0x1p-40)) && mass > 0) {
        double time = -log1p(-u) / mass;
        if (time < r->least) r->least = time, r->winner = i;
    }
}

enum { MANY = 64 };

/* Whether one of so many words may win: by their upper 31 bits, u less its last places, in float32
   with room for its rounding. A loop that compilers turn into vector instructions. */
static int may_win(const race *r, const uint64_t *words, const float *p) {
    float limit = (float)(r->least * 0x1.00001p31);
    int any = 0;
    for (int i = 0; i < MANY; i++) any |= (float)(int32_t)(words[i] >> 33) <= limit * p[i];
    return any;
}

int64_t fr_race(uint64_t k0, uint64_t k1, uint64_t c1, uint64_t c2, uint64_t c3,
                const int32_t *ids, const float *p, int64_t count) {
    race r = {INFINITY, -1};
    noise n = noise_of(k0, k1, c1, c2, c3);
    uint64_t words[MANY];
    int64_t i = 0;
    for (; !ids && i + MANY <= count; i += MANY) {
        for (int j = 0; j < MANY; j += WORDS) philox(&n, (uint64_t)(i + j) / WORDS, words + j);
        if (may_win(&r, words, p + i))
            for (int j = 0; j < MANY; j++) run(&r, words[j], p[i + j], i + j);
    }
    while (i < count) {
        uint64_t block = (uint64_t)(ids ? ids[i] : i) / WORDS;
        philox(&n, block, words);
        do run(&r, words[(ids ? ids[i] : i) % WORDS], p[i], i);
        while (++i < count && (uint64_t)(ids ? ids[i] : i) / WORDS == block);
    }
    return r.winner;
}
