package cli

import "assay/internal/exit"

// How a command ends, as package exit has it, for commands.
const (
	Done        = exit.Done
	Failed      = exit.Failed
	Wrong       = exit.Wrong
	Interrupted = exit.Interrupted
)

// ErrInterrupted is exit.ErrInterrupted.
var ErrInterrupted = exit.ErrInterrupted

// Usage is exit.Usage.
func Usage(err error) error { return exit.Usage(err) }

// Usagef is exit.Usagef.
func Usagef(format string, args ...any) error { return exit.Usagef(format, args...) }

// Named is exit.Named.
func Named(err error) error { return exit.Named(err) }

// Reported is exit.Reported.
func Reported(err error) error { return exit.Reported(err) }

// Problems is exit.Problems.
func Problems(err error) []string { return exit.Problems(err) }
