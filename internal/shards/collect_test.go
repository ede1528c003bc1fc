package shards

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

func TestCollect(t *testing.T) {
	has := map[int]string{2: "c", 3: "d", 4: "e"}
	get := func(row int) (string, bool, error) { r, ok := has[row]; return r, ok, nil }
	got, err := Collect(Shard{From: 2, To: 5}, get)
	if err != nil || !slices.Equal(got, []string{"c", "d", "e"}) {
		t.Errorf("got %v, %v, want c, d, e", got, err)
	}
	if got, err := Collect(Shard{From: 1, To: 5}, get); err == nil || err.Error() != "row 2 has no result" {
		t.Errorf("got %v, %v, want row 2 named", got, err)
	}
	broken := func(int) (string, bool, error) { return "", false, fs.ErrPermission }
	if _, err := Collect(Shard{From: 0, To: 1}, broken); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want the error of the row", err)
	}
}
