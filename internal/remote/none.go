//go:build !cloud

package remote

import "context"

// Built tells whether the program has the drivers of object storage.
const Built = false

// openBucket refuses: the drivers are not there.
func openBucket(context.Context, string) (driver, error) { return nil, ErrNotBuilt }
