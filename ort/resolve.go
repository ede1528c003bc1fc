package ort

import (
	"assay/onnx"
)

// Resolve returns the device that a session with this device name would run on: "cpu" or "cuda:N". auto is cuda:0 if
// a model can be opened there, else cpu.
func Resolve(name string) (string, error) {
	found, err := devices(name)
	if err != nil {
		return "", err
	}
	if len(found) == 1 {
		return found[0].String(), nil
	}
	b := onnx.NewBuilder("device check", 17)
	b.Output("y", b.Op("Identity", b.Input("x", onnx.Float, onnx.Dims(1))), onnx.Float, onnx.Dims(1))
	s, err := Open(b.M, Options{Device: found[0].String()})
	if err != nil {
		return cpu.String(), nil
	}
	return found[0].String(), s.Close()
}
