#include "runtime/base/Status.h"
