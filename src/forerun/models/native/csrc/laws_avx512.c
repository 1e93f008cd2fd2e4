/* Laws with AVX-512. */

#define LAWS fr_laws_avx512
#include "laws.inc.h"
