#include <math.h>

#include "inline.h"
#include "kernels.h"
#include "lanes_avx2.h"
#include "gemm.inc.h"
#include "rows.inc.h"

#define PATH_NAME "avx2"
#define KERNELS fr_path_avx2

static int path_usable(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

#include "path.inc.h"
