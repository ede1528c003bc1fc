package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGoneStorage: requests to unreachable storage are retried for half a minute, as documented in docs/scale.md,
// however long attempts take: Amazon's driver tries three times by itself.
func TestGoneStorage(t *testing.T) {
	for _, each := range []time.Duration{0, 1500 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			for range 50 { // pauses are random
				began, n := time.Now(), 0
				err := retry(t.Context(), "reading", "s3://b/k", func(context.Context) error {
					n++
					time.Sleep(each)
					return &Error{Err: errors.New("no answer"), kind: passing}
				})
				took := time.Since(began) - 2*each // without the first and the last attempt
				if !Failed(err) || n < 4 || took < 20*time.Second || took > 31*time.Second {
					t.Fatalf("attempts of %v: %d of them, %v between the first and the last, %v; want 4 or more, and some 30 s",
						each, n, took, err)
				}
			}
		})
	}
}
