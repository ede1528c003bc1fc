// Package long marks the tests that make test skips.
package long

import (
	"fmt"
	"hash/crc32"
	"os"
	"testing"
)

// Reason is the message of skipped tests; tools/testsum counts them by it.
const Reason = "takes more than a second of CPU time: skipped by -short, run by make test-all"

// ShardEnv names an environment variable such as 3/8: go test -short then runs the long tests of that shard, too.
// .ci/run takes a different shard for each commit.
const ShardEnv = "ASSAY_LONG_SHARD"

// Test skips a test or a subtest under go test -short. It is for tests that take more than a second on an idle CPU.
// Each command, family, loss and rule keeps a test without it.
func Test(t testing.TB) {
	t.Helper()
	if !testing.Short() {
		return
	}
	if in, err := inShard(t.Name(), os.Getenv(ShardEnv)); err != nil {
		t.Fatal(err)
	} else if !in {
		t.Skip(Reason)
	}
}

// inShard reports whether shard i/n contains a test. The empty shard contains none.
func inShard(name, shard string) (bool, error) {
	if shard == "" {
		return false, nil
	}
	var i, n uint32
	if _, err := fmt.Sscanf(shard, "%d/%d", &i, &n); err != nil || i >= n {
		return false, fmt.Errorf("%s is %q, want i/n with i from 0 to n-1, such as 3/8", ShardEnv, shard)
	}
	return crc32.ChecksumIEEE([]byte(name))%n == i, nil
}
