#!/usr/bin/env bash
# Finds MPI for make mpi: writes build/mpi/mpi-c.pc with the flags for compiling and linking, as reported by MPI's compiler
# wrapper. MPICC selects one of several (MPICC=mpicc.mpich make mpi).
. "$(dirname "$0")/common.sh"
mpicc=${MPICC:-mpicc}
need "$mpicc" libopenmpi-dev
need mpirun openmpi-bin
need pkg-config pkg-config
flags=$("$mpicc" -show)
only() { tr ' ' '\n' <<<"$flags" | grep -E "$1" | tr '\n' ' '; }
mkdir -p build/mpi
ln -sfn ../lib build/mpi/lib # ONNX Runtime, for build/mpi/bin
cat >build/mpi/mpi-c.pc <<END
Name: mpi-c
Description: as $mpicc has it
Version: 3
Cflags: $(only '^-[ID]')
Libs: $(only '^-[lL]')
END
