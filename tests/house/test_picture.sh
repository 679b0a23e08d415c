#!/bin/bash
# The picture of a step in docs/ is that of the program which the passes make now.
# usage: test_picture.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
command -v python3 >/dev/null || { echo "needs Python"; exit 77; }
if ! diff <("$2/scripts/draw_step.sh" "$1") "$2/docs/step.svg" >/dev/null; then
    echo "docs/step.svg is not the picture of today's program: scripts/draw_step.sh > docs/step.svg makes it anew"
    exit 1
fi
