#!/usr/bin/env bash
# The benchmarks of ADIEE's Tables 1 and 2, for any judge. Reports: runs/adiee/NAME/reports.
#
#   reproduce/adiee/judge.sh full --scorer runs/adiee/full/regression/scorer
#
#   BENCHMARKS   a selection of them (default: all)
set -euo pipefail
name=$1
shift
for benchmark in ${BENCHMARKS:-imagenhub aurora-point genaibench aurora-pair}; do
	case $benchmark in
	imagenhub) data=(--ratings data/ImagenHub --images data/ImagenHub) ;;
	genaibench) data=(--ratings data/GenAI-Bench) ;;
	*) data=(--ratings data/AURORA-Bench) ;;
	esac
	score bench "$benchmark" "${data[@]}" --out "runs/adiee/$name/$benchmark" --report "runs/adiee/$name/reports/$benchmark" "$@"
done
