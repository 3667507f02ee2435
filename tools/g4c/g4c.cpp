#include "tools/g4c/Driver.h"

int main(int argc, char **argv) { return g4::g4c::run(argc, argv); }
