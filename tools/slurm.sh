#!/usr/bin/env bash
# Runs examples/cluster/score.sbatch on a single-node SLURM that this script starts as processes (Debian: slurm-wlm, munge; as
# root, without systemd), requeues running tasks, merges, and compares with a single run: tools/slurm.sh PROGRAM [TRAIN]
#   PROGRAM is a build of score (go build -o PROGRAM ./cmd/score).
#   TRAIN is train as built by make mpi: examples/cluster/train.sbatch runs as well, with two ranks started by
#   srun --mpi=pmix. The job is requeued while it runs, and its scorer compared with that of a single process.
# The system is not changed: configuration, sockets, key and states are in a folder of this run.
set -euo pipefail
program=$(realpath "${1:?tools/slurm.sh PROGRAM: score as built}")
train=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
for needed in slurmctld slurmd munged sbatch; do
	PATH=$PATH:/usr/sbin command -v $needed >/dev/null || {
		echo "SKIPPED: $needed is not installed (apt-get install slurm-wlm munge): SLURM was NOT tested"
		exit 0
	}
done
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
started=()
finish() {
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
chmod 755 "$work"
host=$(hostname -s)

# munge: authentication between the daemons.
dd if=/dev/urandom of="$work/munge.key" bs=1024 count=1 status=none
chmod 600 "$work/munge.key"
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge" --log-file="$work/munged.log" \
	--pid-file="$work/munged.pid" --seed-file="$work/munge.seed" &
started+=($!)

cat >"$work/slurm.conf" <<CONF
ClusterName=assay
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$work/munge
CredType=cred/munge
SlurmUser=root
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_min_interval=500000
ReturnToService=2
MailProg=/bin/true
JobCompType=jobcomp/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
mkdir "$work/state" "$work/spool"
for _ in $(seq 50); do [ -S "$work/munge" ] && break; sleep 0.1; done
slurmctld -D &
started+=($!)
slurmd -D &
started+=($!)
for _ in $(seq 60); do [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break; sleep 1; done
[ "$(sinfo -h -o %t)" = idle ] || {
	echo "the node does not start:"
	tail -n 20 "$work"/*.log
	exit 1
}
sinfo --version

# The example, without the GPU, memory and time that this node lacks, and with 6 tasks instead of 64.
sed -e 's/--gpus=1/--nodes=1/' -e '/--mem=/d' -e 's/--cpus-per-task=8/--cpus-per-task=1/' -e 's/1-64/1-6/' -e 's,auto/64,auto/6,' \
	-e 's/ --device cuda:0/ --threads 1/' -e "s,^#SBATCH --output=.*,#SBATCH --output=$work/task-%a.log," \
	examples/cluster/score.sbatch >"$work/score.sbatch"
mkdir "$work/bin"
ln -s "$program" "$work/bin/score"
export PATH=$work/bin:$PATH SCORER=$PWD/backbones/tiny-scorer TABLE=$work/edits.jsonl OUT=$work/scores.jsonl
export ASSAY_ONNXRUNTIME=${ASSAY_ONNXRUNTIME:-$PWD/build/lib/libonnxruntime.so} ASSAY_STORE=$work/store
pictures=$PWD/testdata/oracle/images
for i in $(seq 240); do
	echo "{\"source\": \"$pictures/coffee.png\", \"edit\": \"$pictures/coffee_blur.png\", \"instruction\": \"turn $((i / 4))\"}"
done >"$TABLE"
score batch --scorer "$SCORER" --in "$TABLE" --out "$work/whole.jsonl" --threads 1
job=$(sbatch --parsable --export=ALL "$work/score.sbatch")
echo "job $job"
for round in 1 2 3; do # running tasks are requeued: SIGTERM, exit code 3, and again
	sleep 3
	running=$(squeue -h -t R -o %i | head -n 1)
	[ -z "$running" ] || { echo "round $round: $running is requeued"; scontrol requeue "$running"; }
done
for _ in $(seq 300); do [ -z "$(squeue -h)" ] && break; sleep 1; done
[ -z "$(squeue -h)" ] || { squeue; tail -n 5 "$work"/task-*.log; exit 1; }
score batch --scorer "$SCORER" --in "$TABLE" --out "$OUT" --merge --threads 1 || { tail -n 5 "$work"/task-*.log; exit 1; }
cmp "$work/whole.jsonl" "$OUT"
echo "the tasks of the array have the result of a single run: $(wc -l <"$OUT") rows"
[ -n "$train" ] || exit 0

for run in alone ranks; do
	cat >"$work/$run.yaml" <<CONF
out: $work/$run
backbone: $PWD/backbones/tiny
steps: 40
batch_size: 4
micro_batch: 2
threads: 1
head: {hidden: [8]}
data: {train: $TABLE, validation: 0.1}
checkpoint: {steps: 10}
CONF
done
# A label for every row: half of the edits are bad.
awk '{ sub(/}$/, ", \"label\": " NR % 2 ", \"id\": \"" NR "\", \"group\": \"" int(NR / 4) "\"}"); print }' "$TABLE" >"$TABLE.new"
mv "$TABLE.new" "$TABLE"
ln -s "$train" "$work/bin/train"
sed -e 's/--nodes=2/--nodes=1/' -e 's/--ntasks-per-node=8/--ntasks-per-node=2/' -e '/--gpus/d' -e 's/--cpus-per-task=8/--cpus-per-task=1/' \
	-e "s,^#SBATCH --output=.*,#SBATCH --output=$work/train.log," examples/cluster/train.sbatch >"$work/train.sbatch"
train --config "$work/alone.yaml" >/dev/null
job=$(CONFIG=$work/ranks.yaml sbatch --parsable --export=ALL "$work/train.sbatch")
echo "job $job: two ranks"
for _ in $(seq 120); do [ -d "$work/ranks/checkpoints/step-10" ] && break; sleep 0.5; done
squeue -h -j "$job" -t R -o "%i is requeued"
scontrol requeue "$job"
for _ in $(seq 300); do [ -z "$(squeue -h)" ] && break; sleep 1; done
[ -f "$work/ranks/scorer/scorer.yaml" ] || { squeue; cat "$work/train.log"; exit 1; }
grep -h '"msg":"start"' "$work/ranks/ranks/rank-0001.log"
for file in adapter_model.safetensors head.safetensors; do cmp "$work/alone/scorer/$file" "$work/ranks/scorer/$file"; done
echo "two ranks have the result of a single process"
