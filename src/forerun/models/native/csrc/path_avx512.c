#include <math.h>

#include "inline.h"
#include "kernels.h"
#include "lanes_avx512.h"
#include "gemm.inc.h"
#include "rows.inc.h"

#define PATH_NAME "avx512"
#define KERNELS fr_path_avx512

static int path_usable(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

#include "path.inc.h"
