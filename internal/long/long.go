// Package long marks the tests that make test skips.
package long

import "testing"

// Reason is the message of skipped tests; tools/testsum counts them by it.
const Reason = "takes more than a second of CPU time: skipped by -short, run by make test-all"

// Test skips a test or a subtest under go test -short. It is for tests that take more than a second on an idle CPU.
// Each command, family, loss and rule keeps a test without it.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Reason)
	}
}
