// Package long marks the tests that make test leaves out.
package long

import "testing"

// Reason is what skipped tests say; tools/testsum counts them by it.
const Reason = "takes more than a second of a processor: left out by -short, make test-all runs it"

// Test skips a test or a subtest in go test's -short form. It is for what takes more than a second of a quiet
// processor. Each command, family, loss and rule keeps a test without it.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(Reason)
	}
}
