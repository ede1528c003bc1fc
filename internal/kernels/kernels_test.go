package kernels

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// other are operators that are not placed as in the registry: the provider refuses some attributes of the first two,
// and sessions rewrite the last one to another operator.
var other = map[string]bool{"GRU": true, "LSTM": true, "CastLike": true}

// TestTable compares the table with where sessions of the release placed the nodes of ONNX's own tests, in all
// opsets, on a machine without a GPU; see tools/oracle/cuda_kernels.py.
func TestTable(t *testing.T) {
	f, err := os.Open("testdata/placed.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := func(list string) []string {
		return strings.Split(strings.ReplaceAll(list, "-", ""), ",")
	}
	lines := bufio.NewScanner(f)
	n := map[string]int{}
	for lines.Scan() {
		part := strings.Fields(lines.Text())
		if other[part[0]] {
			continue
		}
		first, last, _ := strings.Cut(part[3], "-")
		from, _ := strconv.ParseInt(first, 10, 64)
		to, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			t.Fatalf("got line %q, want numeric opsets", lines.Text())
		}
		for opset := from; opset <= to; opset++ {
			want, got := part[4], "CPU"
			v := version{op: part[0], since: since("", part[0], opset)}
			if has(v, names(part[1]), names(part[2])) {
				got = "CUDA"
			}
			n[want]++
			if got != want {
				t.Errorf("%s, opset %d: got %s from the table, want %s", lines.Text(), opset, got, want)
			}
		}
	}
	if n["CPU"] < 100 || n["CUDA"] < 100 {
		t.Errorf("got %v placed, want at least 100 on each device", n)
	}
}

func TestRelease(t *testing.T) {
	script, err := os.ReadFile("../../tools/setup/onnxruntime.txt")
	if err != nil {
		t.Fatal(err)
	}
	if pinned, _, _ := strings.Cut(string(script), " "); pinned != "onnxruntime=="+Release() {
		t.Errorf("got the table of ONNX Runtime %s, want the pinned %s: run tools/oracle/cuda_kernels.py", Release(), pinned)
	}
}
