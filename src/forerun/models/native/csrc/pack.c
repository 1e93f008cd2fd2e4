/* From a file's blocks to tiles of 16 output channels, and back: the values stay what they were.

   A tile holds, for all its input channels, first the scales and then the codes:

   codes of a group of 32 inputs   vector j (64 bytes) has inputs 4j .. 4j+3 of channel c at bytes
                                   4c .. 4c+3; below 8 bits vectors j and j+4 share one, as lower
                                   and upper nibbles
   fifth bits                      64 bytes more: bit j of byte 4c+i is that of input 4j+i
   fifth and sixth bits (Q6_K)     2 × 64 bytes: bits 2(j mod 4) of vector j/4
   scales of a group               fp16 d[16], and fp16 m[16] for types with minima
   scales of a super-block (_K)    fp16 d[16], dmin[16], then for each group sc[16], m[16]; Q6_K:
                                   d[16], then for each half group int8 sc[16]

   Types without minima have codes offset to be unsigned (8, 16, 32, 128). Floats are a plain
   [width][16]. Channels past the last are zeros. */

#include <string.h>

#include "kernels.h"
#include "pool.h"

typedef struct { int values, bytes, scales, codes, offset, minima, super; } layout;

/* values and bytes of a block in the file; scales of a block and codes of a group in a tile */
static const layout layouts[FR_TYPES] = {
    [FR_F32] = {1, 4, 0, 64, 0, 0, 0},
    [FR_F16] = {1, 2, 0, 32, 0, 0, 0},
    [FR_BF16] = {1, 2, 0, 32, 0, 0, 0},
    [FR_Q8_0] = {32, 34, 32, 512, 128, 0, 0},
    [FR_Q4_0] = {32, 18, 32, 256, 8, 0, 0},
    [FR_Q4_1] = {32, 20, 64, 256, 0, 1, 0},
    [FR_Q5_0] = {32, 22, 32, 320, 16, 0, 0},
    [FR_Q5_1] = {32, 24, 64, 320, 0, 1, 0},
    [FR_Q4_K] = {256, 144, 320, 256, 0, 1, 1},
    [FR_Q5_K] = {256, 176, 320, 320, 0, 1, 1},
    [FR_Q6_K] = {256, 210, 288, 384, 32, 0, 1},
};

int64_t fr_layout(int type, int rows, int width, int64_t *tile_bytes, int64_t *scale_bytes) {
    if (type < 0 || type >= FR_TYPES || rows < 1 || width < 1) return 0;
    const layout *l = &layouts[type];
    if (width % l->values) return 0;
    int64_t blocks = width / l->values;
    *scale_bytes = (blocks * l->scales + 63) / 64 * 64;
    *tile_bytes = l->values == 1 ? (int64_t)width * l->codes
                                 : *scale_bytes + (int64_t)width / FR_GROUP * l->codes;
    return *tile_bytes * ((rows + FR_LANES - 1) / FR_LANES);
}

static uint32_t word(const uint8_t *p) {
    uint32_t w;
    memcpy(&w, p, 4);
    return w;
}
static void put(uint8_t *p, uint32_t w) { memcpy(p, &w, 4); }
static uint16_t half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return h;
}
static void put_half(uint8_t *p, uint16_t h) { memcpy(p, &h, 2); }

#define NIBBLES 0x0f0f0f0fu
#define ONES 0x01010101u

/* Bits 0 to 3 to the lowest bits of four bytes. */
static uint32_t spread(uint32_t bits) { return ((bits & 15) * 0x00204081u) & ONES; }

/* The scale and minimum of group i in a Q4_K or Q5_K block's 12 bytes of 6-bit numbers. */
static void six_bits(const uint8_t *s, int i, uint8_t *scale, uint8_t *minimum) {
    if (i < 4) {
        *scale = s[i] & 63;
        *minimum = s[i + 4] & 63;
    } else {
        *scale = (uint8_t)((s[i + 4] & 15) | s[i - 4] >> 6 << 4);
        *minimum = (uint8_t)(s[i + 4] >> 4 | s[i] >> 6 << 4);
    }
}

/* Codes of group `g` of a block, four to a word. */
static void group_codes(int type, const uint8_t *block, int g, uint32_t *quads) {
    const uint8_t *codes = block + (type == FR_Q4_0 || type == FR_Q8_0 ? 2
                                    : type == FR_Q4_1                  ? 4
                                    : type == FR_Q5_0                  ? 6
                                    : type == FR_Q5_1                  ? 8
                                    : type == FR_Q4_K                  ? 16
                                                                       : 48);
    uint32_t fifth = type == FR_Q5_0 ? word(block + 2) : type == FR_Q5_1 ? word(block + 4) : 0;
    for (int j = 0; j < 8; j++) {
        switch (type) {
            case FR_Q8_0: quads[j] = word(codes + 4 * j) ^ 0x80808080u; break;
            case FR_Q4_0: case FR_Q4_1: case FR_Q5_0: case FR_Q5_1:
                quads[j] = (word(codes + 4 * (j % 4)) >> (j < 4 ? 0 : 4) & NIBBLES) |
                           spread(fifth >> 4 * j) << 4;
                break;
            case FR_Q4_K: case FR_Q5_K:
                quads[j] = word(codes + 32 * (g / 2) + 4 * j) >> (g % 2 ? 4 : 0) & NIBBLES;
                if (type == FR_Q5_K) quads[j] |= (word(block + 16 + 4 * j) >> g & ONES) << 4;
                break;
            case FR_Q6_K: {
                const uint8_t *low = block + 64 * (g / 4) + 32 * (g % 2);
                const uint8_t *high = block + 128 + 32 * (g / 4);
                quads[j] = (word(low + 4 * j) >> (g % 4 < 2 ? 0 : 4) & NIBBLES) |
                           (word(high + 4 * j) >> 2 * (g % 4) & 0x03030303u) << 4;
                break;
            }
        }
    }
}

static void put_codes(int type, uint8_t *to, int channel, const uint32_t *quads) {
    uint8_t *at = to + 4 * channel;
    if (type == FR_Q8_0) {
        for (int j = 0; j < 8; j++) put(at + 64 * j, quads[j]);
        return;
    }
    for (int j = 0; j < 4; j++)
        put(at + 64 * j, (quads[j] & NIBBLES) | (quads[j + 4] & NIBBLES) << 4);
    if (type == FR_Q5_0 || type == FR_Q5_1 || type == FR_Q5_K) {
        uint32_t plane = 0;
        for (int j = 0; j < 8; j++) plane |= (quads[j] >> 4 & ONES) << j;
        put(at + 256, plane);
    }
    if (type == FR_Q6_K) {
        uint32_t planes[2] = {0, 0};
        for (int j = 0; j < 8; j++) planes[j / 4] |= (quads[j] >> 4 & 0x03030303u) << 2 * (j % 4);
        put(at + 256, planes[0]);
        put(at + 320, planes[1]);
    }
}

static void get_codes(int type, const uint8_t *from, int channel, uint32_t *quads) {
    const uint8_t *at = from + 4 * channel;
    for (int j = 0; j < 8; j++) {
        if (type == FR_Q8_0) {
            quads[j] = word(at + 64 * j);
            continue;
        }
        quads[j] = word(at + 64 * (j % 4)) >> (j < 4 ? 0 : 4) & NIBBLES;
        if (type == FR_Q5_0 || type == FR_Q5_1 || type == FR_Q5_K)
            quads[j] |= (word(at + 256) >> j & ONES) << 4;
        if (type == FR_Q6_K)
            quads[j] |= (word(at + 256 + 64 * (j / 4)) >> 2 * (j % 4) & 0x03030303u) << 4;
    }
}

static void put_scales(int type, const uint8_t *block, int channel, uint8_t *to) {
    if (type == FR_Q6_K) {
        put_half(to + 2 * channel, half_at(block + 208));
        for (int i = 0; i < 16; i++) to[32 + 16 * i + channel] = block[192 + i];
    } else {
        put_half(to + 2 * channel, half_at(block));
        if (layouts[type].minima) put_half(to + 32 + 2 * channel, half_at(block + 2));
        if (layouts[type].super)
            for (int g = 0; g < 8; g++)
                six_bits(block + 4, g, &to[64 + 32 * g + channel], &to[64 + 32 * g + 16 + channel]);
    }
}

static void pack_tile(int type, int rows, int width, const uint8_t *blocks, uint8_t *tile,
                      int64_t scale_bytes, int64_t first) {
    const layout *l = &layouts[type];
    int64_t row_bytes = (int64_t)width / l->values * l->bytes;
    for (int channel = 0; channel < FR_LANES && first + channel < rows; channel++) {
        const uint8_t *block = blocks + (first + channel) * row_bytes;
        if (l->values == 1) {
            for (int k = 0; k < width; k++)
                memcpy(tile + (int64_t)l->bytes * (16 * (int64_t)k + channel), block + l->bytes * k,
                       (size_t)l->bytes);
            continue;
        }
        uint8_t *scales = tile, *codes = tile + scale_bytes;
        for (int k = 0; k < width; k += l->values, block += l->bytes, scales += l->scales) {
            put_scales(type, block, channel, scales);
            for (int g = 0; g < l->values / FR_GROUP; g++, codes += l->codes) {
                uint32_t quads[8];
                group_codes(type, block, g, quads);
                put_codes(type, codes, channel, quads);
            }
        }
    }
}

typedef struct {
    int type, rows, width, threads;
    int64_t tile_bytes, scale_bytes;
    const uint8_t *blocks;
    uint8_t *packed;
} packing;

static void pack_share(void *given, int thread) {
    packing *p = given;
    int64_t tiles = (p->rows + FR_LANES - 1) / FR_LANES;
    int64_t from = tiles * thread / p->threads, to = tiles * (thread + 1) / p->threads;
    for (int64_t tile = from; tile < to; tile++)
        pack_tile(p->type, p->rows, p->width, p->blocks, p->packed + tile * p->tile_bytes,
                  p->scale_bytes, tile * FR_LANES);
}

void fr_pack(fr_pool *pool, int type, int rows, int width, const uint8_t *blocks,
             uint8_t *packed) {
    fr_pool_ready(pool);
    packing p = {type, rows, width, fr_pool_threads(pool), 0, 0, blocks, packed};
    if (fr_layout(type, rows, width, &p.tile_bytes, &p.scale_bytes))
        fr_pool_run(pool, pack_share, &p);
}

void fr_channel(const fr_matrix *m, int row, float *out) {
    const layout *l = &layouts[m->type];
    const uint8_t *tile = m->data + row / FR_LANES * m->tile_bytes;
    int c = row % FR_LANES;
    if (l->values == 1) {
        for (int k = 0; k < m->width; k++) {
            const uint8_t *at = tile + (int64_t)l->bytes * (16 * (int64_t)k + c);
            if (m->type == FR_F32) memcpy(out + k, at, 4);
            else out[k] = m->type == FR_F16 ? fr_from_half(half_at(at)) : fr_from_brain(half_at(at));
        }
        return;
    }
    const uint8_t *scales = tile, *codes = tile + m->scale_bytes;
    for (int k = 0; k < m->width; k += l->values, scales += l->scales) {
        float d = fr_from_half(half_at(scales + 2 * c));
        float dmin = l->minima ? fr_from_half(half_at(scales + 32 + 2 * c)) : 0;
        for (int g = 0; g < l->values / FR_GROUP; g++, codes += l->codes) {
            uint32_t quads[8];
            get_codes(m->type, codes, c, quads);
            for (int i = 0; i < FR_GROUP; i++) {
                float code = (float)((int)(quads[i / 4] >> 8 * (i % 4) & 255) - l->offset);
                float scale = d, minimum = dmin;
                if (m->type == FR_Q6_K) {
                    scale = d * (float)(int8_t)scales[32 + 32 * g + 16 * (i / 16) + c];
                } else if (l->super) {
                    scale = d * (float)scales[64 + 32 * g + c];
                    minimum = -(dmin * (float)scales[64 + 32 * g + 16 + c]);
                }
                out[k + 32 * g + i] = l->minima ? scale * code + minimum : scale * code;
            }
        }
    }
}
