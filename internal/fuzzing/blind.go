package fuzzing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Target is a fuzz test of bytes. Go's engine is guided by coverage, and reads every counter of the binary for each
// input. With FUZZ_BLIND=N in the environment, N mutations of the seeds and of a corpus folder in FUZZ_CORPUS run
// without coverage: ten to a hundred times as many inputs per second. FUZZ_BLIND may be a duration (30s), and
// FUZZ_SEED makes the inputs reproducible.
type Target struct {
	f     *testing.F
	seeds [][]byte
}

// New returns a target without seeds.
func New(f *testing.F) *Target { return &Target{f: f} }

// Add adds seeds.
func (x *Target) Add(seeds ...[]byte) {
	for _, raw := range seeds {
		x.seeds = append(x.seeds, raw)
		x.f.Add(raw)
	}
}

// Run hands inputs to body, which must not change them.
func (x *Target) Run(body func(t testing.TB, raw []byte)) {
	if how := os.Getenv("FUZZ_BLIND"); how != "" {
		x.blind(how, body)
	}
	x.f.Fuzz(func(t *testing.T, raw []byte) { body(t, raw) })
}

func (x *Target) blind(how string, body func(t testing.TB, raw []byte)) {
	n, err := strconv.Atoi(how)
	length, bad := time.ParseDuration(how)
	if err != nil && bad != nil {
		x.f.Fatalf("FUZZ_BLIND=%s is neither a number of inputs nor a duration such as 30s", how)
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("FUZZ_CORPUS"), x.f.Name(), "*"))
	for _, path := range files {
		text, err := os.ReadFile(path)
		_, quoted, _ := strings.Cut(string(text), "[]byte(")
		raw, bad := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(quoted), ")"))
		if err == nil && bad == nil {
			x.seeds = append(x.seeds, []byte(raw))
		}
	}
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("FUZZ_SEED"), 10, 64); err == nil {
		seed = given
	}
	m := mutator{rand.New(rand.NewPCG(seed, 1)), x.seeds}
	done, end := 0, time.Now().Add(length)
	for done < n || err != nil && time.Now().Before(end) {
		x.one(m.next(), body)
		done++
	}
	fmt.Printf("%s: %d inputs from %d seeds, random seed %d, none failed\n", x.f.Name(), done, len(x.seeds), seed)
}

// one runs body and, if it fails, saves the input as Go's engine does.
func (x *Target) one(raw []byte, body func(t testing.TB, raw []byte)) {
	whole := false
	defer func() {
		if whole && !x.f.Failed() {
			return
		}
		path := filepath.Join("testdata", "fuzz", x.f.Name(), fmt.Sprintf("%x", sha256.Sum256(raw))[:16])
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", raw), 0o666)
		}
		x.f.Fatalf("the input that failed is in %s (%v): %v", path, err, recover())
	}()
	body(x.f, raw)
	whole = true
}

// A mutator derives inputs from seeds.
type mutator struct {
	*rand.Rand
	seeds [][]byte
}

// interestingNumbers are numbers at which decoders often fail.
var interestingNumbers = []uint64{
	0,
	1,
	2,
	127,
	128,
	255,
	256,
	32767,
	32768,
	65535,
	65536,
	1<<31 - 1,
	1 << 31,
	1<<32 - 1,
	1 << 32,
	1<<63 - 1,
	1 << 63,
	1<<64 - 1,
}

func (m *mutator) next() []byte {
	raw := slices.Clone(m.seeds[m.IntN(len(m.seeds))])
	for range 1 + m.IntN(6) {
		if len(raw) == 0 {
			raw = append(raw, byte(m.Uint32()))
			continue
		}
		at := m.IntN(len(raw))
		n := min(1+m.IntN(1<<m.IntN(8)), len(raw)-at)
		switch m.IntN(8) {
		case 0:
			raw[at] ^= 1 << m.IntN(8)
		case 1:
			raw[at] = byte(m.Uint32())
		case 2:
			raw = slices.Delete(raw, at, at+n)
		case 3:
			raw = slices.Insert(raw, at, raw[at:at+n]...)
		case 4:
			raw = slices.Insert(raw, at, byte(m.Uint32()))
		case 5: // splice in a piece of another seed
			if other := m.seeds[m.IntN(len(m.seeds))]; len(other) > 0 {
				from := m.IntN(len(other))
				raw = slices.Replace(raw, at, at+n, other[from:min(from+1+m.IntN(64), len(other))]...)
			}
		case 6:
			var number [8]byte
			v := interestingNumbers[m.IntN(len(interestingNumbers))]
			width := 1 << m.IntN(4)
			binary.LittleEndian.PutUint64(number[:], v)
			if m.IntN(2) == 0 {
				slices.Reverse(number[:width])
			}
			copy(raw[at:], number[:width])
		case 7:
			raw = raw[:at]
		}
	}
	return raw
}
