"""This module is what the launcher runs: argv[1] is the path that nvcc was started by, the tail of that file says what it is."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from fake_nvcc import MARK, main

with open(sys.argv[1], "rb") as program:
    version, _, archs = program.read().rpartition(MARK)[2].decode().strip().partition(" ")
del sys.argv[0]
sys.exit(main(version, archs))
