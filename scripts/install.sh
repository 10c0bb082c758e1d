#!/usr/bin/env bash
# Creates a virtual environment and installs OptiML into it, with a compiler where the machine has none.
# Usage: PYTHON=python3 install.sh VENV
set -euo pipefail
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "OptiML needs Python 3.11 or newer; $python is $("$python" --version). Set PYTHON=..." >&2; exit 1; }

for tool in g++ patch; do  # nvcc and the CPU executor need a C++ compiler; patches are tested with the real patch
  command -v "$tool" >/dev/null && continue
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$tool"
  else
    echo "OptiML needs $tool: sudo apt-get install $tool" >&2; exit 1
  fi
done

"$python" -m venv "$venv" || {
  echo "cannot create a virtual environment: sudo apt-get install python3-venv" >&2; exit 1; }

extras=dev
nvcc --version >/dev/null 2>&1 || /usr/local/cuda/bin/nvcc --version >/dev/null 2>&1 || extras=dev,nvcc
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 && extras=$extras,cuda
"$venv/bin/pip" install -q --disable-pip-version-check -e ".[$extras]"
