#!/bin/sh
# Make a virtual environment with this package and one torch.
#
#   sh scripts/install.sh VENV TORCH_VERSION CONSTRAINTS [ASKED]
#
# Without a GPU a CPU build of torch is tried first: it is a tenth of the size.  It is found where pip
# can see one: on PyTorch's CPU wheel index (set PIP_EXTRA_INDEX_URL to it) or in a local folder of
# wheels.  Where there is none, or where ASKED names a version, the plain build is taken.
set -eu

venv=$1 version=$2 constraints=$3 asked=${4:-}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "install: $python is older than Python 3.11; set PYTHON to a newer one" >&2
    exit 1
}

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

has_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; }

if ! has_gpu && pip install --quiet --constraint "$constraints" "torch==$version+cpu" 2>/dev/null; then
    echo "install: torch $version, CPU build"
else
    [ -n "$asked" ] || has_gpu || echo "install: no CPU build of torch $version in sight; taking the full one"
    pip install --quiet --constraint "$constraints" "torch==$version"
fi
pip install --quiet --constraint "$constraints" --editable ".[dev]"
echo "install: done; try $venv/bin/pytest --fxregion"
