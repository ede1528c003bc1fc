# The first call installs everything into build/ of this checkout; later calls need no network.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
export CGO_LDFLAGS := "-L$(CURDIR)/build/lib" $(CGO_LDFLAGS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: build ## label, train, score and report on photographs (DEMO=short: in a short form; DEMO=editor: tune an editor, with PyTorch; DEMO_PHOTOS=folder: test on those; DEMO_CAPTIONS=world: labels by the world's captions)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./miniature ./demo
	@lab/demo/run.sh

# Tests of several packages run at a time and open thousands of sessions, whose idle threads must not spin (ort.SpinEnv).
# Most open a graph that was open before: closed sessions are kept for reuse (ort.KeepEnv). make lint runs vet.
test test-all cover: export ASSAY_SPIN ?= 0
test test-all cover: export ASSAY_KEEP_SESSIONS ?= 32
# Linking some 60 test binaries costs as much as running them; without debug information it is little more than half.
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

fuzz: setup ## run every fuzz target for millions of executions (takes hours; docs/decisions/fuzzing.md)
	@tools/fuzz.sh

build: setup ## build bin/train, bin/score, bin/label and bin/assay, which is all three
	@mkdir -p bin && go build -o bin/ ./cmd/...
	@echo "built: $$(echo bin/*)"

lab: setup ## build build/lab/miniature and the other programs for work on Assay (lab/README.md)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./...
	@echo "built: $$(echo build/lab/*)"

bench: build lab ## benchmark against PyTorch (installed into build/), into docs/decisions/benchmarks.md
	@lab/bench/run.sh

parity: build lab ## check written files and the server from Python (PyTorch, PEFT, datasets, TensorBoard, MLflow go into build/)
	@tools/parity/run.sh

pretrain: build lab ## rebuild the small checkpoints in backbones/ (takes hours; resumes)
	@lab/pretrain/run.sh

# Cargo starts at once; downloads and Go's compiler run in parallel.
setup: ## install the dependencies of building and running into build/
	@tools/setup/tokenizers.sh & cargo=$$!; \
		tools/setup/onnxruntime.sh && tools/setup/pictures.sh && tools/setup/deflate.sh && tools/setup/modules.sh && tools/setup/packages.sh && tools/setup/ops.sh optional; code=$$?; \
		wait $$cargo && exit $$code

ops: setup ## build build/lib/libassay_ops.so, the fused operators (part of make setup if g++ is installed)
	@tools/setup/ops.sh
	@echo "built: build/lib/libassay_ops.so"

cuda-ops: setup ## compile the CUDA kernels of the fused operators into build/ops, without a GPU (Triton goes into build/: 1 GB)
	@tools/setup/kernels.sh
	@cat build/ops/compiled
	@tools/setup/ops.sh

test-kernels: cuda-ops ## run the CUDA kernels and their launchers on Triton's interpreter (Triton and PyTorch go into build/)
	@tools/setup/python.sh
	@PYTHONPATH=build/triton build/venv/bin/python -B ops/triton/check.py build/lib/libassay_ops.so
	@PYTHONPATH=build/triton build/venv/bin/python -B ops/triton/launch.py build/lib/libassay_ops.so build/ops

# Gorgonia also has a tag cuda, which needs cuBLAS and cuDNN to compile; full commands use the tag gpu instead.
cuda: setup ## build build/cuda/bin with the tag gpu: commands that list CUDA devices (compiled against CUDA 11's headers)
	@tools/setup/cuda.sh
	@mkdir -p build/cuda/bin && export CGO_CFLAGS='-w -Wno-error=implicit-function-declaration "-I$(CURDIR)/build/cuda/include"' CGO_LDFLAGS='$(CGO_LDFLAGS) "-L$(CURDIR)/build/cuda/lib"' && \
		go vet -tags cuda ./ort && go build -trimpath -tags gpu -o build/cuda/bin/ ./cmd/...
	@echo "built: $$(echo build/cuda/bin/*)"

stub: cuda-ops ## train, score and serve with ONNX Runtime's CUDA provider on a stub of CUDA, which computes nothing, without a GPU (0.3 GB go into build/)
	@tools/setup/stub.sh
	@mkdir -p build/stub/bin && go build -trimpath -ldflags '-X assay/model/exec.unchecked=1' -o build/stub/bin/ ./cmd/...
	@python3 tools/gpu/stub.py build/stub --check

book: build ## dry-run every chapter of the reproduction book in the miniature world (reproduce/README.md)
	@ASSAY_SPIN=0 ASSAY_TEST_BOOK=1 go test -vet=off -count=1 -timeout 20m -run '^TestBook$$' ./internal/house

faults: build ## fault injection: kill commands, fail calls, jump clocks, overload a server, and compare (docs/reliability.md; KILLS=100: how often; DAY=1h: a day's requests)
	@mkdir -p build/lab && go -C lab build -o ../build/lab/ ./faults
	@build/lab/faults --kills $(or $(KILLS),10) --faults $(or $(KILLS),10) --pairs $(or $(KILLS),10) --server $$((6 * $(or $(KILLS),10)))s \
		--day $(or $(DAY),$$((3 * $(or $(KILLS),10)))s) $(if $(filter 1 2 3 4,$(KILLS)),--brief)

weather: faults # its old name

# Go's cache does not notice a change of pkg-config's output: another MPI gets its own definition.
mpi: setup ## build build/mpi/bin/train with the tag mpi: training with several processes (Open MPI or MPICH; docs/scale.md)
	@tools/setup/mpi.sh
	@mkdir -p build/mpi/bin && export PKG_CONFIG_PATH="$(CURDIR)/build/mpi:$$PKG_CONFIG_PATH" && \
		$(if $(MPICC),export CGO_CPPFLAGS=-DMPICC_$(subst .,_,$(notdir $(MPICC))) &&) \
		go vet -tags mpi ./internal/mpi && go build -tags mpi -o build/mpi/bin/ ./cmd/train
	@echo "built: build/mpi/bin/train"

cloud: setup ## build build/cloud/bin with the tag cloud: score, label and train with object storage (docs/scale.md)
	@mkdir -p build/cloud/bin && ln -sfn ../lib build/cloud/lib
	@go vet -tags cloud ./internal/remote && go build -tags cloud -o build/cloud/bin/ ./cmd/score ./cmd/label ./cmd/train
	@echo "built: $$(echo build/cloud/bin/*)"

.PHONY: dist
dist: ## build dist/: wheels, an archive and a .deb of one program, for glibc 2.28 and newer (docs/install.md)
	@tools/dist/run.sh

clean: ## remove the outputs of make build and make dist
	rm -rf bin dist

distclean: clean ## also remove what was installed
	rm -rf build

.PHONY: help demo pretrain test test-all fmt lint cover fuzz build bench parity setup ops cuda-ops test-kernels cuda stub mpi lab faults weather cloud clean distclean
