package onnx

import "fmt"

// InternalError is a bug in Assay itself, with the details for a bug report.
type InternalError struct {
	Doing string // the operation that failed
	Cause any    // an error, or the value of a panic
	Stack []byte // of the panic; nil for an error
}

func (e *InternalError) Error() string {
	s := fmt.Sprintf(
		"internal error while %s: %v (a bug in Assay, not in the model: please report it)",
		e.Doing, e.Cause,
	)
	if e.Stack != nil {
		s += "\n" + string(e.Stack)
	}
	return s
}

// Unwrap returns the cause if it is an error.
func (e *InternalError) Unwrap() error {
	err, _ := e.Cause.(error)
	return err
}
