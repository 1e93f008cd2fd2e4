/* A path's table. Included last; `PATH_NAME` and `path_usable` are the path's own. */

#include "attention.inc.h"

const fr_kernels KERNELS = {
    .name = PATH_NAME,
    .usable = path_usable,
    .tile = any_tile,
    .quantise = quantise_row,
    .inverse_rms = inverse_rms_row,
    .norm = norm_row,
    .gate = gate_row,
    .rotate = rotate_head,
    .store = store_cell,
    .attend = attend_all,
    .choose = choose_lanes,
};
