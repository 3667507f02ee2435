#include "runtime/module/module_generated.h"
