#!/bin/bash
# The expected texts of the chat templates are those that the installed transformers renders. Needs Python.
# usage: test_chat_templates.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
here=$2/tests/parity
source "$here/venv.sh"
exec "$python" "$here/make_chat.py" --check
