/* Checksums of what the library computes from fixed random numbers, a line for each:

       PATH CASE CHECKSUM

   Cases: packed bytes and their values for every type; products of several widths, with extreme
   codes and activations, with numbers that are not finite; passes of whole small models: prompts in
   chunks, ragged batches, trees, windows, moved cells, one thread and three. The order of sums is
   one on all paths, so CASE alone decides CHECKSUM, whatever the machine. NaN counts as one value.

   Uses what Python uses, forerun.h, and nothing else. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forerun.h"

static uint64_t state;
static uint64_t dice(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static float real(void) { return (float)((double)(dice() >> 11) * 0x1p-52 - 1.0); } /* -1 .. 1 */

static uint64_t mixed(uint64_t sum, uint64_t value) { return (sum ^ value) * 0x100000001b3u; }
static uint64_t of_floats(uint64_t sum, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        sum = mixed(sum, isnan(x[i]) ? 0x7fc00000u : bits);
    }
    return sum;
}
static uint64_t of_bytes(uint64_t sum, const uint8_t *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) sum = mixed(sum, x[i]);
    return sum;
}
static void say(const char *path, const char *what, int a, int b, uint64_t sum) {
    printf("%s %s-%d-%d %016llx\n", path, what, a, b, (unsigned long long)sum);
}
static void *must(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "no memory\n");
    exit(2);
}

/* ---- matrices ---- */

static const struct { int values, bytes, halves, at[2]; } blocks[FR_TYPES] = {
    [FR_F32] = {1, 4, 0, {0, 0}},         [FR_F16] = {1, 2, 0, {0, 0}},
    [FR_BF16] = {1, 2, 0, {0, 0}},        [FR_Q8_0] = {32, 34, 1, {0, 0}},
    [FR_Q4_0] = {32, 18, 1, {0, 0}},      [FR_Q4_1] = {32, 20, 2, {0, 2}},
    [FR_Q5_0] = {32, 22, 1, {0, 0}},      [FR_Q5_1] = {32, 24, 2, {0, 2}},
    [FR_Q4_K] = {256, 144, 2, {0, 2}},    [FR_Q5_K] = {256, 176, 2, {0, 2}},
    [FR_Q6_K] = {256, 210, 1, {208, 0}},
};

/* A half float between 2^-9 and 2^-7, of either sign; for super-blocks 2^-5 of that. */
static uint16_t half(int super) {
    uint64_t r = dice();
    int exponent = 15 - 9 + (int)(r & 1) - (super ? 5 : 0);
    return (uint16_t)((r >> 1 & 1) << 15 | exponent << 10 | (r >> 2 & 1023));
}

/* How to fill codes: at random, all bits clear, all bits set. */
enum { RANDOM = -1, LOW = 0, HIGH = 255 };

static fr_matrix *matrix(fr_pool *pool, int type, int rows, int width, int fill, uint64_t *sum) {
    int64_t count = (int64_t)rows * width / blocks[type].values, bytes = blocks[type].bytes;
    uint8_t *file = must(malloc((size_t)(count * bytes)));
    for (int64_t i = 0; i < count; i++) {
        uint8_t *block = file + i * bytes;
        if (blocks[type].values == 1) { /* floats of a fair size */
            float value = real() / 8;
            uint32_t bits;
            memcpy(&bits, &value, 4);
            uint16_t brain = (uint16_t)(bits >> 16), small = half(0);
            if (type == FR_F32) memcpy(block, &value, 4);
            else memcpy(block, type == FR_BF16 ? &brain : &small, 2);
            continue;
        }
        for (int64_t j = 0; j < bytes; j++)
            block[j] = fill == RANDOM ? (uint8_t)dice() : (uint8_t)fill;
        for (int j = 0; j < blocks[type].halves; j++) {
            uint16_t scale = half(blocks[type].values == 256);
            memcpy(block + blocks[type].at[j], &scale, 2);
        }
    }
    fr_matrix *m = must(calloc(1, sizeof *m));
    int64_t tile, scales, size = fr_layout(type, rows, width, &tile, &scales);
    uint8_t *packed = must(fr_alloc(size));
    fr_pack(pool, type, rows, width, file, packed);
    *m = (fr_matrix){type, rows, width, (rows + FR_LANES - 1) / FR_LANES, tile, scales, packed, NULL};
    if (sum) *sum = of_bytes(*sum, packed, size);
    free(file);
    return m;
}

enum { WIDTH = 512, CHANNELS = 24, MOST = 17, STRIDE = 32 };

/* Activations by kind: plain, all largest, one huge among small, tiny, with infinities and NaN. */
static void activations(float *x, int rows, int kind) {
    for (int i = 0; i < rows * WIDTH; i++) {
        x[i] = real();
        if (kind == 1) x[i] = x[i] < 0 ? -1.0f : 1.0f;
        if (kind == 2) x[i] = i % 37 ? x[i] : x[i] * 1e30f;
        if (kind == 3) x[i] *= i / 32 % 3 ? 0x1p-118f : i / 32 % 2 ? 0x1p-149f : 0x1p-127f;
        if (kind == 4 && i % 50 == 7) x[i] = i % 3 ? INFINITY : NAN;
        if (kind == 5) x[i] = -1.0f;
    }
}

static void products(fr_pool *pool, const char *path, int type, int fill, int kind) {
    state = (uint64_t)(type * 1000 + fill * 10 + kind);
    fr_matrix *m = matrix(pool, type, CHANNELS, WIDTH, fill, NULL);
    static float x[MOST * WIDTH], y[MOST * STRIDE], value[WIDTH];
    activations(x, MOST, kind);
    uint64_t sum = 0;
    for (int rows = kind ? MOST : 1; rows <= MOST; rows = rows < 9 ? rows + 1 : rows + 8) {
        if (fr_matmul(pool, path, m, x, rows, y)) exit(3);
        sum = of_floats(sum, y, rows * STRIDE);
    }
    for (int row = 0; row < CHANNELS; row++) {
        fr_channel(m, row, value);
        sum = of_floats(sum, value, WIDTH);
    }
    say(path, "product", type, 100 * fill + kind, sum);
}

/* ---- models ---- */

enum { HIDDEN = 256, D = 64, HEADS = 4, KV = 2, WIDE = 256, TOKENS = 37, LAYERS = 2, TURNED = 48 };
enum { ROWS = 96 };
enum { X, H, Q, K, V, A, F };

static float vectors[16][WIDE], table[512 * TURNED];

static const float *vector(int i, float middle) {
    for (int j = 0; j < WIDE; j++) vectors[i][j] = middle + real() / 4;
    return vectors[i];
}

typedef struct { void *page[4]; int length; } cache;

static void pass(fr_pool *pool, fr_model *model, const char *path, int rows, const int32_t *slot,
                 cache *caches, int32_t (*row)[4], const int32_t *start, const int32_t *list,
                 uint64_t *sum) {
    int32_t tokens[ROWS], positions[ROWS], cells[ROWS], shared[ROWS], wanted[ROWS];
    static float logits[ROWS * TOKENS], features[ROWS * 2 * HIDDEN];
    for (int r = 0; r < rows; r++) {
        tokens[r] = row[r][0], positions[r] = row[r][1], cells[r] = row[r][2];
        shared[r] = row[r][3], wanted[r] = r;
    }
    void *const *pages[2] = {caches[0].page, caches[1].page};
    /* every row but the first two */
    fr_pass given = {rows, rows - 2, tokens, positions, slot, cells, shared, start, list,
                     wanted + 2, pages, logits, TOKENS, TOKENS - 1, NULL, NULL, features, 2 * HIDDEN, NULL,
                     0};
    if (fr_run(pool, model, path, &given)) exit(4);
    *sum = of_floats(*sum, logits, (int64_t)(rows - 2) * TOKENS);
    *sum = of_floats(*sum, features, (int64_t)rows * 2 * HIDDEN);
    /* the same again, but only the largest of all logits but the last */
    int64_t choices[ROWS];
    given.logits = NULL, given.choices = choices;
    if (fr_run(pool, model, path, &given)) exit(4);
    for (int r = 0; r < rows - 2; r++) {
        const float *own = logits + r * TOKENS;
        int64_t best = 0;
        for (int t = 1; t < TOKENS - 1; t++)
            if (own[t] > own[best]) best = t;
        if (choices[r] != best) exit(5);
    }
}

static void models(fr_pool *pool, const char *path, int type, int variant) {
    state = (uint64_t)(77 + type * 10 + variant);
    int coded = type > FR_BF16 ? FR_QUANTISE : FR_FLOATS;
    int window = variant % 2 ? 9 : 0, norms = variant / 2 % 2;
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < TURNED / 2; j++) { /* any pairs of numbers will do */
            table[i * TURNED + j] = real();
            table[i * TURNED + TURNED / 2 + j] = real();
        }
    fr_op ops[2 + 8 * LAYERS + 3];
    int n = 0;
    fr_matrix *m[7], *head = matrix(pool, type, TOKENS, HIDDEN, RANDOM, NULL), *made[64];
    int count = 0;
    made[count++] = head;
    ops[n++] = (fr_op){.kind = FR_EMBED, .out = {X}, .maps = 1, .width = HIDDEN, .scale = 3.0f,
                       .matrix = {head}};
    for (int layer = 0; layer < LAYERS; layer++) {
        const int shape[7][2] = {{HEADS * D, HIDDEN}, {KV * D, HIDDEN}, {KV * D, HIDDEN},
                                 {HIDDEN, HEADS * D}, {WIDE, HIDDEN},   {WIDE, HIDDEN},
                                 {HIDDEN, WIDE}};
        for (int i = 0; i < 7; i++)
            made[count++] = m[i] = matrix(pool, type, shape[i][0], shape[i][1], RANDOM, NULL);
        m[1]->bias = vector(8 + layer, 0);
        ops[n++] = (fr_op){.kind = FR_NORM, .flags = coded, .in = X, .out = {H}, .width = HIDDEN,
                           .epsilon = 1e-5f, .weight = vector(4 * layer, 1)};
        ops[n++] = (fr_op){.kind = FR_LINEAR, .in = H, .out = {Q, K, V}, .maps = 3,
                           .matrix = {m[0], m[1], m[2]}};
        ops[n++] = (fr_op){.kind = FR_ROTATE, .flags = variant % 2 ? FR_INTERLEAVED : 0, .in = Q,
                           .out = {Q, K, V}, .layer = layer, .heads = HEADS, .kv_heads = KV,
                           .head_width = D, .turned = TURNED, .epsilon = 1e-6f, .scale = 0.125f,
                           .weight = norms ? vector(4 * layer + 1, 1) : NULL,
                           .k_weight = norms ? vector(4 * layer + 2, 1) : NULL, .table = table};
        ops[n++] = (fr_op){.kind = FR_ATTEND, .flags = coded, .in = Q, .out = {A}, .layer = layer,
                           .heads = HEADS, .kv_heads = KV, .head_width = D, .window = window};
        ops[n++] = (fr_op){.kind = FR_LINEAR, .flags = FR_ADD, .in = A, .out = {X}, .maps = 1,
                           .matrix = {m[3]}};
        ops[n++] = (fr_op){.kind = FR_NORM, .flags = coded, .in = X, .out = {H}, .width = HIDDEN,
                           .epsilon = 1e-5f, .weight = vector(4 * layer + 3, 1)};
        ops[n++] = (fr_op){.kind = FR_GATED, .flags = coded | (variant % 2 ? FR_GELU : 0), .in = H,
                           .out = {F}, .maps = 2, .matrix = {m[4], m[5]}};
        ops[n++] = (fr_op){.kind = FR_LINEAR, .flags = FR_ADD, .in = F, .out = {X}, .maps = 1,
                           .matrix = {m[6]}};
    }
    ops[n++] = (fr_op){.kind = FR_TAP, .in = X, .layer = 1, .width = HIDDEN};
    ops[n++] = (fr_op){.kind = FR_TAP, .in = X, .layer = 0, .width = HIDDEN, .epsilon = 1e-5f,
                       .weight = vector(13, 1)};
    ops[n++] = (fr_op){.kind = FR_NORM, .flags = coded | FR_CHOSEN, .in = X, .out = {H},
                       .width = HIDDEN, .epsilon = 1e-5f, .weight = vector(12, 1)};
    ops[n++] = (fr_op){.kind = FR_LINEAR, .flags = FR_CHOSEN, .in = H, .out = {-1}, .maps = 1,
                       .matrix = {head}};
    const int32_t widths[] = {HIDDEN, HIDDEN, HEADS * D, KV * D, KV * D, HEADS * D, WIDE};
    fr_model *model = must(fr_model_new(ops, n, widths, 7, ROWS, LAYERS, KV, D));
    int64_t page = fr_page_bytes(LAYERS, KV, D);
    cache caches[2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) caches[i].page[j] = must(fr_alloc(page));

    uint64_t sum = 0;
    static const int32_t none[ROWS + 1], zeros[ROWS];
    int32_t row[ROWS][4], slot[ROWS], length = 0;
    /* a prompt of 19 tokens, in one variant of 82 and over two pages */
    const int chunks[] = {3, variant == 1 ? 67 : 4, 12};
    for (int c = 0; c < 3; c++) {
        for (int r = 0; r < chunks[c]; r++, length++) {
            row[r][0] = (int32_t)(dice() % TOKENS), row[r][1] = row[r][2] = length;
            row[r][3] = length + 1;
        }
        pass(pool, model, path, chunks[c], zeros, caches, row, none, none, &sum);
    }
    /* a tree in the first slot, a chain in the second: parents (-1 0 0 2 1 4) */
    const int32_t shared[] = {1, 2, 1, 1, 2, 2}, depth[] = {0, 1, 1, 2, 2, 3};
    const int32_t start[] = {0, 0, 0, 1, 3, 4, 6, 6, 6, 6};
    int32_t list[] = {2, 2, 3, 4, 4, 5};
    for (int i = 0; i < 6; i++) list[i] += length;
    for (int r = 0; r < 9; r++) {
        row[r][0] = (int32_t)(dice() % TOKENS);
        slot[r] = r >= 6;
        row[r][1] = r < 6 ? length + depth[r] : r - 6;
        row[r][2] = r < 6 ? length + r : r - 6;
        row[r][3] = r < 6 ? length + shared[r] : r - 5;
    }
    pass(pool, model, path, 9, slot, caches, row, start, list, &sum);
    /* keep 0, 2, 3 */
    fr_move(caches[0].page, LAYERS, KV, D, length + 2, length + 1);
    fr_move(caches[0].page, LAYERS, KV, D, length + 3, length + 2);
    length += 3;
    for (int r = 0; r < 5; r++) {
        row[r][0] = (int32_t)(dice() % TOKENS), row[r][1] = row[r][2] = length + r;
        row[r][3] = length + r + 1;
    }
    pass(pool, model, path, 5, zeros, caches, row, none, none, &sum);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            sum = of_bytes(sum, caches[i].page[j], page);
            fr_free(caches[i].page[j], page);
        }
    for (int i = 0; i < count; i++) {
        fr_free((void *)made[i]->data, made[i]->tile_bytes * made[i]->tiles);
        free(made[i]);
    }
    fr_model_free(model);
    say(path, "model", type, variant, sum);
}

int main(void) {
    fr_pool *one = must(fr_pool_new(1)), *three = must(fr_pool_new(3));
    char names[64], *next = names;
    strcpy(names, fr_paths());
    for (int type = 0; type < FR_TYPES; type++) {
        uint64_t sum = 0;
        state = (uint64_t)type;
        matrix(three, type, CHANNELS, WIDTH, RANDOM, &sum);
        say("any", "packed", type, 0, sum);
    }
    for (char *path; (path = next) && *path;) {
        if ((next = strchr(path, ' '))) *next++ = 0;
        for (int type = 0; type < FR_TYPES; type++) {
            for (int kind = 0; kind < 5; kind++)
                products(kind % 2 ? three : one, path, type, RANDOM, kind);
            if (type <= FR_BF16) continue;
            for (int kind = 0; kind < 6; kind += kind ? 4 : 1) {
                products(three, path, type, LOW, kind);
                products(one, path, type, HIGH, kind);
            }
        }
        for (int variant = 0; variant < 4; variant++)
            models(variant % 2 ? three : one, path, variant % 2 ? FR_Q4_K : FR_Q6_K, variant);
        models(one, path, FR_BF16, 1);
    }
    fr_pool_free(one);
    fr_pool_free(three);
    return 0;
}
