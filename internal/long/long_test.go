package long

import (
	"fmt"
	"testing"
)

// Every test is in one shard of eight, and no shard has far more than the others.
func TestShards(t *testing.T) {
	const tests, shards = 800, 8
	var sizes [shards]int
	for i := range tests {
		name := fmt.Sprintf("TestFamily/case_%d", i)
		found := 0
		for s := range shards {
			in, err := inShard(name, fmt.Sprintf("%d/%d", s, shards))
			if err != nil {
				t.Fatal(err)
			}
			if in {
				found++
				sizes[s]++
			}
		}
		if found != 1 {
			t.Errorf("%s is in %d shards, want 1", name, found)
		}
	}
	for s, n := range sizes {
		if n < tests/shards/2 || n > tests/shards*2 {
			t.Errorf("shard %d of %d has %d of %d tests", s, shards, n, tests)
		}
	}
	if in, err := inShard("TestFamily", ""); in || err != nil {
		t.Errorf("without a shard: got %v, %v, want false", in, err)
	}
	for _, bad := range []string{"8/8", "3", "0/0", "-1/8", "x"} {
		if _, err := inShard("TestFamily", bad); err == nil {
			t.Errorf("shard %q: no error", bad)
		}
	}
}
