package store

import (
	"fmt"
	"testing"
)

// The cost of a record of 3 kB (an embedding of 768 numbers), and of a folder with 100,000 of them.

func benchBucket(b *testing.B, records int) *Bucket {
	s, err := Open(b.TempDir(), Options{Limit: 1 << 34})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	k, err := s.Bucket("things", "model")
	if err != nil {
		b.Fatal(err)
	}
	value := FloatBytes(make([]float32, 768))
	for i := range records {
		if err := k.Put(keyOf(i), value); err != nil {
			b.Fatal(err)
		}
	}
	return k
}

func BenchmarkHit(b *testing.B) {
	k := benchBucket(b, 1000)
	for i := 0; b.Loop(); i++ {
		if k.Floats(keyOf(i%1000), 768) == nil {
			b.Fatalf("record %d: got nothing, want it", i%1000)
		}
	}
}

func BenchmarkMiss(b *testing.B) {
	k := benchBucket(b, 1000)
	for i := 0; b.Loop(); i++ {
		if k.Get(KeyOf("none", fmt.Sprint(i))) != nil {
			b.Fatalf("record %d: got a value, want none", i)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	k := benchBucket(b, 0)
	value := FloatBytes(make([]float32, 768))
	for i := 0; b.Loop(); i++ {
		if err := k.Put(keyOf(i), value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a folder with 100,000 records; B/op is about the size of the index.
func BenchmarkOpen(b *testing.B) {
	k := benchBucket(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		s, err := Open(k.store.folder, Options{Limit: 1 << 34})
		if err != nil {
			b.Fatal(err)
		}
		again, err := s.Bucket("things", "model")
		if err != nil || again.Len() != 100_000 {
			b.Fatalf("got %d records, %v, want 100000", again.Len(), err)
		}
		s.Close()
	}
}
