# Everything is installed into build/ of this checkout at the first call; later calls need no network.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
export CGO_LDFLAGS := "-L$(CURDIR)/build/lib" $(CGO_LDFLAGS)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: build ## label, train, score and report on photographs (DEMO=short: in a short form; DEMO=editor: tune an editor, with PyTorch; DEMO_PHOTOS=folder: examine those; DEMO_CAPTIONS=world: labels by the world's captions)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./miniature ./demo
	@lab/demo/run.sh

# Tests of several packages run at a time and open thousands of sessions, whose idle threads must not spin (ort.SpinEnv).
# Most are of a graph that was open before: closed sessions stay for the next one (ort.KeepEnv). Vet is make lint's.
test test-all cover: export ASSAY_SPIN ?= 0
test test-all cover: export ASSAY_KEEP_SESSIONS ?= 32
# Linking some 60 test binaries costs as much as running them: without a debugger's tables it is little more than half.
test test-all cover: flags := -vet=off -ldflags='-s -w' -timeout 20m

test: setup ## run the tests that take up to a second, and some of each kind that takes longer (internal/long)
	@go run ./tools/testsum -short -p 3 $(flags) ./...
	@go run ./tools/testsum -C lab -short -p 3 $(flags) ./...

test-all: setup ## run all tests
	@go run ./tools/testsum $(flags) ./...
	@go run ./tools/testsum -C lab $(flags) ./...

fmt: ## format the Go files
	@git ls-files '*.go' | xargs gofmt -w

lint: setup ## vet, staticcheck, dead code, functions that grew too large, misspellings (docs/decisions/lint.md)
	@files=$$(git ls-files '*.go' | xargs gofmt -l) && [ -z "$$files" ] || { echo "error: make fmt is due for: $$files" >&2; exit 1; }
	@go vet ./...
	@tools/lint.sh

cover: setup ## run all tests and measure what they cover, into build/cover.html
	@go run ./tools/testsum $(flags) -coverprofile build/cover.out ./...
	@go tool cover -html build/cover.out -o build/cover.html
	@go tool cover -func build/cover.out | tail -1

fuzz: setup ## run every fuzz target for millions of executions (hours; docs/decisions/fuzzing.md)
	@tools/fuzz.sh

build: setup ## make bin/train, bin/score, bin/label and bin/assay, which is all three
	@mkdir -p bin && go build -o bin/ ./cmd/...
	@echo "built: $$(echo bin/*)"

lab: setup ## make build/lab/miniature and the other programs for work on Assay (lab/README.md)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./...
	@echo "built: $$(echo build/lab/*)"

bench: build lab ## measure beside PyTorch (installed into build/), into docs/decisions/benchmarks.md
	@lab/bench/run.sh

parity: build lab ## check from Python what is written and served (PyTorch, PEFT, datasets, TensorBoard, MLflow go into build/)
	@tools/parity/run.sh

pretrain: build lab ## make the small checkpoints in backbones/ anew (hours; goes on where it stopped)
	@lab/pretrain/run.sh

# Cargo begins at once; downloads and Go's compiler use what it leaves idle.
setup: ## install what building and running need into build/
	@tools/setup/tokenizers.sh & cargo=$$!; \
		tools/setup/onnxruntime.sh && tools/setup/pictures.sh && tools/setup/deflate.sh && tools/setup/modules.sh && tools/setup/packages.sh && tools/setup/ops.sh optional; code=$$?; \
		wait $$cargo && exit $$code

ops: setup ## make build/lib/libassay_ops.so, the fused operators (a part of make setup where g++ is installed)
	@tools/setup/ops.sh
	@echo "built: build/lib/libassay_ops.so"

cuda-ops: setup ## compile the CUDA kernels of the fused operators into build/ops, without a GPU (Triton goes into build/: 1 GB)
	@tools/setup/kernels.sh
	@cat build/ops/compiled
	@tools/setup/ops.sh

test-kernels: cuda-ops ## run the CUDA kernels, and what launches them, on Triton's interpreter (Triton and PyTorch go into build/)
	@tools/setup/python.sh
	@PYTHONPATH=build/triton build/venv/bin/python -B ops/triton/check.py build/lib/libassay_ops.so
	@PYTHONPATH=build/triton build/venv/bin/python -B ops/triton/launch.py build/lib/libassay_ops.so build/ops

# Gorgonia has a tag cuda of its own, which wants cuBLAS and cuDNN to compile; whole commands take the tag gpu instead.
cuda: setup ## make build/cuda/bin with the tag gpu: commands that list CUDA devices (compiled against CUDA 11's headers)
	@tools/setup/cuda.sh
	@mkdir -p build/cuda/bin && export CGO_CFLAGS='-w -Wno-error=implicit-function-declaration "-I$(CURDIR)/build/cuda/include"' CGO_LDFLAGS='$(CGO_LDFLAGS) "-L$(CURDIR)/build/cuda/lib"' && \
		go vet -tags cuda ./ort && go build -trimpath -tags gpu -o build/cuda/bin/ ./cmd/...
	@echo "built: $$(echo build/cuda/bin/*)"

book: build ## dry-run every chapter of the reproduction book in the miniature world (reproduce/README.md)
	@ASSAY_SPIN=0 ASSAY_TEST_BOOK=1 go test -vet=off -count=1 -timeout 20m -run '^TestBook$$' ./internal/house

faults: build ## kill commands, let calls fail and clocks jump, overload a server, and compare (docs/reliability.md; KILLS=100: how often; DAY=1h: a day's requests)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./faults
	@build/lab/faults --kills $(or $(KILLS),10) --faults $(or $(KILLS),10) --pairs $(or $(KILLS),10) --server $$((6 * $(or $(KILLS),10)))s \
		--day $(or $(DAY),$$((3 * $(or $(KILLS),10)))s) $(if $(filter 1 2 3 4,$(KILLS)),--brief)

weather: faults # its old name

# Go's cache does not see that pkg-config says something else: another MPI has a definition of its own.
mpi: setup ## make build/mpi/bin/train with the tag mpi: training by several processes (Open MPI or MPICH; docs/scale.md)
	@tools/setup/mpi.sh
	@mkdir -p build/mpi/bin && export PKG_CONFIG_PATH="$(CURDIR)/build/mpi:$$PKG_CONFIG_PATH" && \
		$(if $(MPICC),export CGO_CPPFLAGS=-DMPICC_$(subst .,_,$(notdir $(MPICC))) &&) \
		go vet -tags mpi ./internal/mpi && go build -tags mpi -o build/mpi/bin/ ./cmd/train
	@echo "built: build/mpi/bin/train"

cloud: setup ## make build/cloud/bin with the tag cloud: score, label and train with object storage (docs/scale.md)
	@mkdir -p build/cloud/bin && ln -sfn ../lib build/cloud/lib
	@go vet -tags cloud ./internal/remote && go build -tags cloud -o build/cloud/bin/ ./cmd/score ./cmd/label ./cmd/train
	@echo "built: $$(echo build/cloud/bin/*)"

.PHONY: dist
dist: ## make dist/: wheels, an archive and a .deb of one program, for glibc 2.28 and newer (docs/install.md)
	@tools/dist/run.sh

clean: ## remove what make build made
	rm -rf bin dist

distclean: clean ## remove what was installed, too
	rm -rf build

.PHONY: help demo pretrain test test-all fmt lint cover fuzz build bench parity setup ops cuda-ops test-kernels cuda mpi lab faults weather cloud clean distclean
