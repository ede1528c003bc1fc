package ort

import "testing"

func TestResolve(t *testing.T) {
	for name, want := range map[string]string{"": "cpu", "cpu": "cpu"} {
		if got, err := Resolve(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if got, err := Resolve("auto"); err != nil || got != "cpu" && got != "cuda:0" {
		t.Errorf("auto: %q, %v", got, err)
	}
	if _, err := Resolve("gpu"); err == nil {
		t.Error("gpu is no device")
	}
}
