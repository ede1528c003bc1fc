package house

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestTelemetryIsOff requires that only package ort loads ONNX Runtime, because it switches telemetry off first, and
// that Python programs do so before they import it. Container images set the variable for everything else that runs
// in them.
func TestTelemetryIsOff(t *testing.T) {
	binding := regexp.MustCompile(`(?m)^(import |\t)(\w+ )?"github.com/yalue/onnxruntime_go"$`)
	for name, text := range goFiles(t) {
		if binding.Match(text) && path.Dir(name) != "ort" {
			t.Errorf("%s imports the runtime's binding; want only package ort to load it, which switches telemetry off", name)
		}
	}
	loads := regexp.MustCompile(`(?m)^\s*(import|from) onnxruntime\b`)
	const off = `os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")`
	for _, name := range filesBelow(t, ".py") {
		text := read(t, name)
		if at := loads.FindIndex(text); at != nil && !strings.Contains(string(text[:at[0]]), off) {
			t.Errorf("%s imports onnxruntime; want %s before that", name, off)
		}
	}
	for _, name := range filesBelow(t, "Containerfile") {
		if !strings.Contains(string(read(t, name)), "ORT_DISABLE_TELEMETRY=1") {
			t.Errorf("%s: want ENV ORT_DISABLE_TELEMETRY=1, for other programs of the image", name)
		}
	}
}
