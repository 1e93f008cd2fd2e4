/* Laws with AVX2. */

#define LAWS fr_laws_avx2
#include "laws.inc.h"
