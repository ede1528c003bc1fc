#!/usr/bin/env bash
# The benchmarks of ADIEE's Tables 1 and 2, for whatever judges. Reports: runs/adiee/NAME/reports.
#
#   reproduce/adiee/judge.sh full --scorer runs/adiee/full/regression/scorer
set -euo pipefail
name=$1
shift
bench() {
	score bench "$1" --out "runs/adiee/$name/$1" --report "runs/adiee/$name/reports/$1" "${@:2}"
}
bench imagenhub --ratings data/ImagenHub --images data/ImagenHub "$@"
bench aurora-point --ratings data/AURORA-Bench "$@"
bench genaibench --ratings data/GenAI-Bench "$@"
bench aurora-pair --ratings data/AURORA-Bench "$@"
