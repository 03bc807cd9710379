#!/bin/sh
# Other simulators beside ours: peers.sh <build folder>. What cannot be installed is left out, with a
# word. JAX and PyTorch come from PyPI into a virtual environment under the build folder.
set -eu
here=$(dirname "$0")
work=$1/bench/peers
mkdir -p "$work"

if command -v smpicxx >/dev/null 2>&1; then
  smpicxx -O2 "$here/peers_smpi.cpp" -o "$work/smpi"
  for ranks in 4096 16384; do
    {
      echo "<?xml version='1.0'?><!DOCTYPE platform SYSTEM 'https://simgrid.org/simgrid.dtd'>"
      echo "<platform version='4.1'><cluster id='c' prefix='h' suffix='' radical='0-$((ranks - 1))'"
      echo " speed='1Gf' bw='50GBps' lat='5us'/></platform>"
    } >"$work/platform.xml"
    start=$(date +%s.%N)
    if smpirun -np "$ranks" -platform "$work/platform.xml" --log=root.thres:critical "$work/smpi" \
      >/dev/null 2>&1; then
      echo "SimGrid SMPI, 4 all_reduce, $ranks ranks: $(echo "$(date +%s.%N) - $start" | awk '{print $1 - $3}') s"
    else
      echo "SimGrid SMPI, $ranks ranks: failed"
    fi
  done
else
  echo "no smpicxx: no comparison with SimGrid"
fi

python="$work/venv/bin/python"
[ -x "$python" ] || python3 -m venv "$work/venv"
"$python" -m pip install -q torch jax || { echo "PyPI cannot be reached: no JAX, no PyTorch"; exit 0; }
for peer in jax torch; do
  for ranks in 256 1024; do
    taskset -c 0 "$python" "$here/peers_mlp.py" "$peer" "$ranks" || echo "$peer, $ranks ranks: failed"
  done
done
