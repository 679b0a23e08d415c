# Sourced by the test of the Python package. Sets $python to an interpreter of a throw-away environment in $1 with numpy and pytest,
# whose files are taken from pip's own cache once they were there. Ends the script with 77 (skipped) and says why where it cannot be had.
numpy_pin=2.4.6 pytest_pin=9.2.0

skip() {
    echo "skipped: $*"
    exit 77
}

python_venv() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    python3 -m venv "$1" >"$1.log" 2>&1 || skip "python3 -m venv does not work (Debian: python3-venv)"
    python=$1/bin/python
    "$python" -m pip install --quiet "numpy==$numpy_pin" "pytest==$pytest_pin" >>"$1.log" 2>&1 ||
        skip "pip cannot install numpy and pytest: $(tail -1 "$1.log")"
}
