package ort

import (
	"fmt"
	"testing"
)

func TestResolve(t *testing.T) {
	for name, want := range map[string]string{"": "cpu", "cpu": "cpu"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			if got, err := Resolve(name); got != want || err != nil {
				t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
			}
		})
	}
	if got, err := Resolve("auto"); err != nil || got != "cpu" && got != "cuda:0" {
		t.Errorf("auto: got %q, %v, want cpu or cuda:0", got, err)
	}
	if _, err := Resolve("gpu"); err == nil {
		t.Errorf("gpu: got error %v, want one: it is not a device", err)
	}
}
