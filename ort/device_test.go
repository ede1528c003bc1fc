package ort_test

import (
	"testing"

	"assay/ort"
)

func TestIsDevice(t *testing.T) {
	for name, want := range map[string]bool{
		"auto": true, "cpu": true, "cuda:0": true, "cuda:12": true,
		"": false, "gpu": false, "cuda": false, "cuda:": false, "cuda:x": false, "cuda:-1": false, "cuda:auto": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := ort.IsDevice(name); got != want {
				t.Errorf("IsDevice(%q): got %t, want %t", name, got, want)
			}
		})
	}
}
