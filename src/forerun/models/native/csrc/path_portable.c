#include <math.h>

#define FR_PLAIN /* lanes are loops here; unrolled rows would be megabytes */

#include "inline.h"
#include "kernels.h"
#include "lanes_portable.h"
#include "gemm.inc.h"
#include "rows.inc.h"

#define PATH_NAME "portable"
#define KERNELS fr_path_portable

static int path_usable(void) { return 1; }

#include "path.inc.h"
