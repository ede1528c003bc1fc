//go:build !cloud

package remote

import (
	"context"
	"errors"
)

// openBucket refuses: the drivers are not there.
func openBucket(context.Context, string) (driver, error) {
	return nil, errors.New("this program was built without object storage: use the one that make cloud builds")
}
