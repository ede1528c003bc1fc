//go:build !cloud

package remote

import "context"

// Built reports whether the program includes the drivers for object storage.
const Built = false

// openBucket returns ErrNotBuilt: the drivers are not included.
func openBucket(context.Context, string) (driver, error) { return nil, ErrNotBuilt }
