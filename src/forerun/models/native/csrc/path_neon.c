#include <math.h>

#include "inline.h"
#include "kernels.h"
#include "lanes_neon.h"
#include "gemm.inc.h"
#include "rows.inc.h"

#define PATH_NAME "neon"
#define KERNELS fr_path_neon

#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
static int path_usable(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#else
static int path_usable(void) { return 1; } /* every Apple arm64 machine has it */
#endif

#include "path.inc.h"
