package labeling

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"assay/data"
)

// Encoder embeds pictures and texts in one space; the vectors need not be normalised. Equal inputs must give equal
// vectors, so a cache is wanted in front of a model. encoders.Encoder is one.
type Encoder interface {
	Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error)
	Texts(ctx context.Context, texts []string) ([][]float32, error)
}

// Encoders are the models that measure similarities; either may be nil.
type Encoders struct{ Clip, Dino Encoder }

// shot is a picture of a sample on its way: read and, if that is wanted, hashed and embedded.
type shot struct {
	picture
	err        error
	clip, dino []float32
}

// need says what a picture is wanted for besides its pixels.
type need struct{ embedding, hash bool }

// covers reports whether a picture that was loaded for n will do for o.
func (n need) covers(o need) bool { return (n.embedding || !o.embedding) && (n.hash || !o.hash) }

type lookup struct {
	picture string
	need
}

// loader reads and embeds the pictures of one part. Pictures are decoded by several workers at once and embedded in
// batches, one after the other, while the next one is decoded; not more than two batches and one picture per worker are in
// memory.
type loader struct {
	ctx      context.Context
	out      string
	encoders Encoders
	size     int                // of a batch
	counted  func(pictures int) // called for every picture that is done

	tokens chan struct{} // of pictures in memory
	decode chan struct{} // of pictures being decoded
	busy   sync.WaitGroup
	known  map[lookup]*shot

	encode sync.Mutex // held while a batch is embedded

	mu    sync.Mutex
	batch batch // that is being collected
	fatal error
}

// batch are pictures that wait to be embedded.
type batch struct {
	shots    []*shot
	pictures []*data.Picture
}

func newLoader(ctx context.Context, out string, e Encoders, size, workers int, counted func(int)) *loader {
	return &loader{ctx: ctx, out: out, encoders: e, size: size, counted: counted, known: map[lookup]*shot{},
		tokens: make(chan struct{}, 2*size+workers), decode: make(chan struct{}, workers)}
}

// add begins to load a picture. The shot is ready when wait has returned. A picture that was asked for before is not
// loaded again, unless more is needed of it now.
func (l *loader) add(m data.Image, n need) *shot {
	key := m.Path
	if len(m.Bytes) > 0 {
		sum := sha256.Sum256(m.Bytes)
		key = "\x00" + string(sum[:])
	}
	n.embedding = n.embedding && (l.encoders.Clip != nil || l.encoders.Dino != nil)
	for _, have := range []need{{false, false}, {true, false}, {false, true}, {true, true}} {
		if s, ok := l.known[lookup{key, have}]; ok && have.covers(n) {
			return s
		}
	}
	s := &shot{}
	l.known[lookup{key, n}] = s
	l.tokens <- struct{}{}
	l.busy.Go(func() {
		p := l.load(s, m, n.hash)
		switch {
		case p == nil:
			<-l.tokens
		case !n.embedding:
			<-l.tokens
			l.counted(1)
		default:
			l.embed(l.collect(s, p))
		}
	})
	return s
}

// load reads a picture; nil: it cannot be used.
func (l *loader) load(s *shot, m data.Image, hash bool) *data.Picture {
	l.decode <- struct{}{}
	defer func() { <-l.decode }()
	if s.err = l.ctx.Err(); s.err != nil {
		return nil
	}
	p, err := m.Open("", data.Limits{})
	if err != nil {
		s.err = err
		return nil
	}
	if s.Pixels = pixels(p); hash {
		s.Look = LookOf(p)
	}
	if len(m.Bytes) > 0 {
		s.Path, err = keepPicture(l.out, m.Bytes)
	} else {
		s.Path, err = filepath.Rel(l.out, m.Path)
		s.Path = filepath.ToSlash(s.Path)
	}
	if err != nil {
		l.fail(err)
		return nil
	}
	return p
}

// collect adds a picture to the batch, and returns the batch if that makes it full.
func (l *loader) collect(s *shot, p *data.Picture) (full batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch.shots, l.batch.pictures = append(l.batch.shots, s), append(l.batch.pictures, p)
	if len(l.batch.shots) >= l.size {
		full, l.batch = l.batch, batch{}
	}
	return full
}

func (l *loader) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = err
	}
}

// embed runs the encoders on a batch.
func (l *loader) embed(b batch) {
	n := len(b.shots)
	if n == 0 {
		return
	}
	l.encode.Lock()
	defer l.encode.Unlock()
	for _, e := range []struct {
		encoder Encoder
		set     func(*shot, []float32)
	}{{l.encoders.Clip, func(s *shot, v []float32) { s.clip = v }}, {l.encoders.Dino, func(s *shot, v []float32) { s.dino = v }}} {
		if e.encoder == nil || l.failed() != nil {
			continue
		}
		vectors, err := e.encoder.Images(l.ctx, b.pictures)
		if err == nil && len(vectors) != n {
			err = fmt.Errorf("an encoder gave %d vectors for %d pictures", len(vectors), n)
		}
		for i := 0; err == nil && i < n; i++ {
			err = finite(vectors[i], b.shots[i].Path)
		}
		if err != nil {
			l.fail(err)
			continue
		}
		for i, s := range b.shots {
			e.set(s, vectors[i])
		}
	}
	for range n {
		<-l.tokens
	}
	l.counted(n)
}

// wait returns when all pictures are ready. Its error is not one of a picture.
func (l *loader) wait() error {
	l.busy.Wait()
	l.embed(l.batch)
	l.batch = batch{}
	if err := l.ctx.Err(); err != nil {
		return err
	}
	return l.failed()
}

func (l *loader) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// finite refuses what a broken encoder gives: NaN would pass for a similarity that is undefined, which fails an edit.
func finite(vector []float32, of string) error {
	for _, x := range vector {
		if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
			return fmt.Errorf("%s: an encoder gave the embedding %v: its weights are broken, or its precision does not suffice", of, x)
		}
	}
	return nil
}

// pixels is a digest of what a picture shows: two files with the same pixels have the same.
func pixels(p *data.Picture) string {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p.Width)), uint64(p.Height)))
	h.Write(p.Pix) // never fails
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// keepPicture stores a picture that lies inside another file under a name made of its content, and returns its path from
// the output folder.
func keepPicture(out string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:16])
	kind, ok := strings.CutPrefix(http.DetectContentType(raw), "image/")
	if !ok {
		kind = "bin"
	}
	rel := filepath.Join(picturesFolder, name[:2], name+"."+kind)
	path := filepath.Join(out, rel)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(raw)) {
		return filepath.ToSlash(rel), nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return filepath.ToSlash(rel), writeFile(path, raw)
}
