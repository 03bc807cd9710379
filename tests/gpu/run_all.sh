#!/bin/sh
# Runs all tests that need a GPU, within eight minutes, on a machine with a driver and NCCL. It needs no
# compiler, no MPI, no network and no packages. Run it in a package made by `./dev gpu`, or in a checkout
# that has one at build/gpu:
#
#   tests/gpu/run_all.sh [RESULTS]      default: bench/results/<name of the GPU>/
#
# Each step writes its command and log to RESULTS; summary.md states how each step ended, and
# RESULTS.tar.gz holds all files.
# Exit code: 0 all steps passed; 1 a step failed; 2 there is no GPU, or no NCCL (steps that need no NCCL
# still run).
set -u
case ${1:-} in
  /* | "") ;;
  *) set -- "$PWD/$1" ;;
esac
cd "$(dirname "$0")/../.." || exit 2

# Finds the package beside this file, or where `./dev gpu` has written it.
find_programs() {
  package=build/gpu/package
  if [ ! -x bin/shardproof ] && [ ! -x $package/bin/shardproof ] && [ -f $package.tar.gz ]; then
    tar -C build/gpu -xzf $package.tar.gz
  fi
  if [ ! -x bin/shardproof ] && [ -x $package/bin/shardproof ]; then
    echo $package/bin
  else
    echo bin
  fi
}
PROGRAMS=${PROGRAMS:-$(find_programs)}
PATH=$PATH:/usr/local/cuda/bin # of compute-sanitizer
# If python3 is a script, it starts another python, which has the packages with NCCL.
prefix=$(timeout 20 python3 -c 'import sys; print(sys.prefix)' 2>/dev/null) || prefix=
[ ! -x "$prefix/bin/python3" ] || PATH=$PATH:$prefix/bin
LIMIT=450 # seconds, of everything, so that it ends within eight minutes
kept=0    # of these, seconds for what comes after the steps at hand
began=$(date +%s)
failed=0

say() { printf '%s\n' "$*"; }
die() {
  printf 'run_all.sh: %s\n' "$1" >&2
  exit 2
}
left() { echo $((LIMIT - $(date +%s) + began)); }

# step NAME SECONDS COMMAND...: runs the command for at most SECONDS, and leaves `kept` seconds of
# LIMIT to later steps.
step() {
  name=$1
  seconds=$2
  shift 2
  rest=$(($(left) - kept))
  [ "$rest" -ge "$seconds" ] || seconds=$rest
  log="$results/$name.log"
  printf '$ %s\n' "$*" >"$log"
  code=0
  if [ "$seconds" -le 0 ]; then
    ended="not run: no time left"
    failed=1
  else
    start=$(date +%s)
    timeout -k 5 "$seconds" "$@" >>"$log" 2>&1
    code=$?
    took=$(($(date +%s) - start))
    case $code in
      0) ended="good, $took s" ;;
      124 | 137) ended="FAILED: no end within $seconds s; the log has what came before" ;;
      *) ended="FAILED: exit code $code after $took s" ;;
    esac
    [ "$code" = 0 ] || failed=1
  fi
  say "  $name: $ended"
  [ "$code" = 0 ] || tail -n 15 "$log" | sed 's/^/    /'
  # shellcheck disable=SC2016  # the quotes are Markdown's
  printf '| %s | %s | `%s` |\n' "$name" "$ended" "$*" >>"$summary"
}

# skip NAME REASON
skip() {
  say "  $1: not run: $2"
  printf '| %s | not run: %s | |\n' "$1" "$2" >>"$summary"
}

[ -x "$PROGRAMS/shardproof" ] || die "$PROGRAMS/shardproof is not there; ./dev gpu makes a package"
# Keeps the loader's one line if a library is missing.
listed=$(timeout 60 "$PROGRAMS/shardproof" list backends 2>&1) ||
  die "$PROGRAMS/shardproof does not run here: $(printf '%s\n' "$listed" | head -n 1)"
backend=$(printf '%s\n' "$listed" | sed -n '/^  nccl /p')
lacks_nccl=
case $backend in
  *"not here: "*NCCL*) lacks_nccl=${backend#*not here: } ;;
  *"not here: "*) die "the nccl backend cannot run: ${backend#*not here: }" ;;
  "") die "$PROGRAMS/shardproof has no nccl backend" ;;
esac

asked() { timeout 10 nvidia-smi "--query-gpu=$1" --format=csv,noheader 2>/dev/null; }
names=$(asked name)
gpu=$(printf '%s\n' "$names" | head -n 1)
gpus=$(printf '%s\n' "$names" | grep -c .)
[ "$gpus" -gt 0 ] || gpus=1
# nvidia-smi also shows GPUs that programs cannot see.
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  gpus=$(printf '%s\n' "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | grep -c .)
fi
machine=$(printf '%s_x%s' "${gpu:-unknown gpu}" "$gpus" | tr 'A-Z ' 'a-z_' | tr -cd 'a-z0-9_.-')
results=${1:-bench/results/$machine}
mkdir -p "$results" || die "$results cannot be made"
summary="$results/summary.md"
# NCCL's log, and its rings and trees for the steps about bits, in one file for each process.
logs="$results/nccl"
rm -rf "$logs"
mkdir "$logs" || die "$logs cannot be made"
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}" NCCL_DEBUG_FILE="$logs/%p.log"
{
  say "# $gpus x ${gpu:-unknown GPU}"
  say
  asked driver_version | sed -n '1s/^/driver /p'
  "$PROGRAMS/shardproof" --version
  say
  say '| step | result | command |'
  say '|---|---|---|'
} >"$summary"

# Number of ranks that share one GPU if there are fewer GPUs than ranks. They run in turn, and a call
# takes a turn for each hop, so these steps are short.
sharing() { echo $((($1 + gpus - 1) / gpus)); }
shares() { [ "$(sharing "$1")" -gt 1 ]; }
say "results go to $results"
step corpus_host 30 "$PROGRAMS/shardproof" run scenarios/corpus

# The most important steps come first.
kept=120
step ops 120 "$PROGRAMS/gpu_ops_test"
step corpus_cuda 60 "$PROGRAMS/shardproof" run scenarios/corpus --device cuda \
  --json "$results/corpus_cuda.json"

# corpus_nccl RANKS NAME SECONDS PART...
corpus_nccl() {
  ranks=$1
  name=corpus_nccl_$1$2
  seconds=$3
  shift 3
  step "$name" "$seconds" "$PROGRAMS/shardproof" run "$@" --backend nccl --processes "$ranks" \
    --ranks-per-gpu "$(sharing "$ranks")" --timeout 60s --json "$results/$name.json"
}
with_nccl() {
  corpus_nccl 1 "" 60 scenarios/corpus

  # Compares NCCL's bits in ring and tree, with one channel and two, with those of --order.
  for ranks in 1 2 4; do
    step "bits_$ranks" 60 env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV,GRAPH,TUNING \
      NCCL_DEBUG_FILE="$logs/bits_${ranks}_%p.log" \
      "$PROGRAMS/nccl_probe" bits --ranks "$ranks" --ranks-per-gpu "$(sharing "$ranks")"
  done

  # Runs in parts, calls first: a run that is cut short writes no report.
  for ranks in 2 4; do
    corpus_nccl "$ranks" _calls 60 scenarios/corpus/collectives scenarios/corpus/redistribute
  done
  for ranks in 2 4; do
    corpus_nccl "$ranks" _programs 60 scenarios/corpus/layers scenarios/corpus/faults \
      scenarios/corpus/bugs
  done

  # One process that drives several GPUs, then two such processes.
  if [ "$gpus" -gt 1 ]; then
    [ "$gpus" -gt 4 ] && several=4 || several=$gpus
    step several_gpus 60 "$PROGRAMS/shardproof" run scenarios/corpus --backend nccl --processes 1 \
      --gpus-per-process "$several" --timeout 60s --json "$results/corpus_several_gpus.json"
    if [ "$gpus" -ge 4 ]; then
      step several_gpus_2x2 60 "$PROGRAMS/shardproof" run scenarios/corpus --backend nccl \
        --processes 2 --gpus-per-process 2 --timeout 60s --json "$results/corpus_several_2x2.json"
    fi
  else
    skip several_gpus "one GPU is visible"
  fi

  # Times by the GPU's own events, beside the predictions of the simulator and of NCCL.
  kept=60
  step measured 60 "$PROGRAMS/shardproof" run scenarios/corpus/faults/ring_time.json \
    --backend local,nccl --processes 4 --ranks-per-gpu "$(sharing 4)" --warmup 2 --iters 10 \
    --timeout 60s --record "$results/measured"

  # Each repetition as one CUDA graph: by one rank with kernels alone, by two with calls.
  for ranks in 1 2; do
    step "graphs_$ranks" 60 "$PROGRAMS/shardproof" run scenarios/corpus/collectives \
      scenarios/corpus/layers --backend nccl --processes "$ranks" \
      --ranks-per-gpu "$(sharing "$ranks")" --iters 2 --cuda-graph --timeout 60s \
      --json "$results/graphs_$ranks.json"
  done

  # Measured times, and those of NCCL's own model.
  for ranks in 1 2 4; do
    few=
    ! shares "$ranks" || few="--most 1048576 --repetitions 3 --in-a-row 3"
    # shellcheck disable=SC2086  # several words
    step "times_$ranks" 60 "$PROGRAMS/nccl_probe" times --ranks "$ranks" \
      --ranks-per-gpu "$(sharing "$ranks")" $few
  done

  sizes="-b 8 -e 64M -f 32"
  ! shares 2 || sizes="-b 8 -e 1M -f 32 --iters 5"
  # shellcheck disable=SC2086
  step bench_all_reduce_2 60 "$PROGRAMS/shardproof" bench --backend nccl --processes 2 \
    --ranks-per-gpu "$(sharing 2)" $sizes --json "$results/bench_all_reduce_2.json" \
    --topology "flat(latency='20 us', bandwidth='2 GB/s')"
  # shellcheck disable=SC2086
  step bench_sendrecv_2 60 "$PROGRAMS/shardproof" bench --backend nccl --processes 2 \
    --ranks-per-gpu "$(sharing 2)" --collective sendrecv $sizes \
    --json "$results/bench_sendrecv_2.json"
  if [ "$gpus" -gt 1 ]; then
    step several_gpus_bench 60 "$PROGRAMS/shardproof" bench --backend nccl --processes 1 \
      --gpus-per-process "$several" -b 8 -e 64M -f 32 --json "$results/bench_several_gpus.json"
  fi

  # Checks how puts travel.
  step one_sided 60 "$PROGRAMS/shardproof" run scenarios/corpus/collectives/one_sided_ring.json \
    --backend nccl --processes 3 --ranks-per-gpu "$(sharing 3)" --timeout 60s
}
if [ -z "$lacks_nccl" ]; then
  with_nccl
else
  skip nccl "$lacks_nccl"
fi

# Our kernels under compute-sanitizer: one scenario, then as many layers as time allows. Failed driver
# calls by which libraries detect features are no errors.
kept=0
sanitized() {
  before=$failed
  step "$1" "$2" compute-sanitizer --error-exitcode 9 --report-api-errors no \
    "$PROGRAMS/shardproof" run "$3" --device cuda --jobs 1
  if [ "$code" != 0 ] && grep -q 'Device not supported\|Failed to initialize' "$log"; then
    skip "$1" "compute-sanitizer does not know this device"
    failed=$before
    return 1
  fi
  # A run that is cut short has found no error so far.
  case $code in
    124 | 137) grep -q 'Invalid __\|Misaligned\|Race reported' "$log" || failed=$before ;;
  esac
}
if ! command -v compute-sanitizer >/dev/null 2>&1; then
  skip sanitizer "there is no compute-sanitizer"
elif [ "$(left)" -lt 30 ]; then
  skip sanitizer "no time left"
elif ! timeout 20 compute-sanitizer --require-cuda-init no "$PROGRAMS/shardproof" --version \
  >"$results/sanitizer.log" 2>&1; then
  skip sanitizer "compute-sanitizer does not work here: $(tail -n 1 "$results/sanitizer.log")"
else
  sanitized sanitizer 90 scenarios/corpus/layers/mlp_column_row.json &&
    sanitized sanitizer_layers 120 scenarios/corpus/layers
fi

find "$logs" -type f -size -1 -delete
took=$(($(date +%s) - began))
say "$took s of at most $LIMIT; $summary"
printf '\n%s s in all.\n' "$took" >>"$summary"
tar -C "$(dirname "$results")" -czf "$results.tar.gz" "$(basename "$results")" ||
  say "$results.tar.gz cannot be written"
[ -z "$lacks_nccl" ] || exit 2
exit $failed
