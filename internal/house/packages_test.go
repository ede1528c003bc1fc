package house

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// A package has at most maxPackageFiles files and maxPackageLines lines, without tests and generated files.
const (
	maxPackageFiles = 45
	maxPackageLines = 6000
)

// TestPackages limits the size of packages.
func TestPackages(t *testing.T) {
	files, lines := map[string]int{}, map[string]int{}
	for name, text := range goFiles(t) {
		if dir := path.Dir(name); !strings.HasSuffix(name, "_test.go") {
			files[dir]++
			lines[dir] += bytes.Count(text, []byte("\n"))
		}
	}
	for dir, n := range lines {
		if n > maxPackageLines || files[dir] > maxPackageFiles {
			t.Errorf("%s: got %d lines in %d files, want at most %d in %d: split it", dir, n, files[dir], maxPackageLines,
				maxPackageFiles)
		}
	}
	if lines["onnx/grad"] == 0 {
		t.Error("got no lines of onnx/grad, want them: the test counts nothing")
	}
}
