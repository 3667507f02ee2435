"""IR in, IR out. A test says what it runs in its RUN lines; see docs/development.md.

Substitutions: %data is test/data, %models is models/, %bin the folder of the programs, %python the Python of the build.
Features: one for each tool that was built (g4c, g4run), for tests that REQUIRE it.
"""

import os

import lit.formats

config.name = "g4"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join([config.g4_tools, config.llvm_tools, os.environ["PATH"]])
config.substitutions += [
    ("%data", os.path.join(config.g4_source, "test", "data")),
    ("%models", os.path.join(config.g4_source, "models")),
    ("%bin", config.g4_tools),
    ("%python", config.python),
]
for tool in ("g4c", "g4run"):
    if os.access(os.path.join(config.g4_tools, tool), os.X_OK):
        config.available_features.add(tool)
