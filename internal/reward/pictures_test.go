package reward

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/data"
	"assay/edit"
)

// TestPictureCache: a picture is decoded once while it is kept, by whoever comes first.
func TestPictureCache(t *testing.T) {
	var cached, decoded atomic.Int64
	c := newPictureCache(3*75, func(hit bool) { // three pictures of 5 x 5 pixels
		if hit {
			cached.Add(1)
		} else {
			decoded.Add(1)
		}
	})
	get := func(key byte) (*data.Picture, error) {
		p, _, err := c.get(t.Context(), [32]byte{key}, func() (*data.Picture, error) { return data.NewPicture(5, 5), nil })
		return p, err
	}
	expect := func(what string, wantCached, wantDecoded int64) {
		t.Helper()
		if cached.Load() != wantCached || decoded.Load() != wantDecoded || c.held > c.limit {
			t.Errorf("%s: got %d from the cache, %d decoded, %d bytes, want %d, %d", what, cached.Load(), decoded.Load(),
				c.held, wantCached, wantDecoded)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { get(1) })
	}
	all.Wait()
	expect("eight at once", 7, 1)
	for key := range byte(3) {
		get(key + 2)
	}
	get(2)
	expect("three others", 8, 4)
	get(1)
	expect("the oldest again", 8, 5)
	get(2)
	expect("one that was used since", 9, 5)

	// A failure is that of its request alone.
	failed := errors.New("damaged")
	if _, _, err := c.get(t.Context(), [32]byte{9}, func() (*data.Picture, error) { return nil, failed }); err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
	if p, err := get(9); p == nil || err != nil {
		t.Errorf("got %v, %v after a failure of another request", p, err)
	}
	begun, end := make(chan bool), make(chan bool)
	go c.get(t.Context(), [32]byte{10}, func() (*data.Picture, error) {
		close(begun)
		<-end
		return data.NewPicture(5, 5), nil
	})
	<-begun
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := c.get(gone, [32]byte{10}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who left while another decodes: got %v", err)
	}
	close(end)
}

// TestPicturesAreDecodedOnce: in many requests, for several judges, as source and as edit.
func TestPicturesAreDecodedOnce(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}, "b": &fake{}}, "a", "b")
	source, dark := png(t, 9, 8, 6), png(t, 51, 5, 5)
	request := object{"source": source, "instruction": "x", "edits": []any{dark, source},
		"rewards": []any{object{"name": "a"}, object{"name": "b"}}}
	for range 3 {
		if code, _, _, body := ask(t, h.URL, request); code != 200 {
			t.Fatalf("got %d %s", code, body)
		}
	}
	_, metrics := get(t, h.URL+"/metrics")
	for _, want := range []string{`assay_pictures_total{from="decoder"} 2`,
		`assay_stage_seconds_count{scorer="",stage="decode"} 2`,
		`assay_stage_seconds_count{scorer="a",stage="prepare"} 6`, `assay_stage_seconds_count{scorer="b",stage="model"} 3`,
		`assay_stage_seconds_count{scorer="b",stage="wait"} 3`, `assay_score_count{scorer="a"} 6`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics has no %s", want)
		}
	}
}
